"""Whether a live object differs from what we set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def needs_apply(wanted: Mapping[str, Any], live: Mapping[str, Any] | None) -> bool:
    """Whether applying `wanted` would change anything; what the API server adds or rewrites in its own words does not count."""
    raise NotImplementedError
