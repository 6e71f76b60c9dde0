"""The names of the entities that the operator configures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OPERATOR_PREFIX = "k8s/"
"""Prefix of these names."""


def of_operator(attributes: Mapping[str, Any]) -> bool:
    """Whether the attributes belong to an entity that the operator configured."""
    return str(attributes.get("name") or "").startswith(OPERATOR_PREFIX)
