"""Conditions, as Kubernetes resources have them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Condition:
    """One statement about a resource. `holds` None is Unknown."""

    type: str
    holds: bool | None
    reason: str
    message: str = ""
