"""The status of a Router."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_operator.specs import Router

from .seen import Seen


def router_status(router: Router, seen: Seen, before: Mapping[str, Any]) -> dict[str, Any]:
    """`.status` of the Router. `before` is its present one: a condition that does not change keeps its time."""
    raise NotImplementedError
