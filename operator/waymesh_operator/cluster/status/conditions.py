"""Conditions, as Kubernetes resources have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

_WORDS = {True: "True", False: "False", None: "Unknown"}
MESSAGE_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class Condition:
    """One statement about a resource. `holds` None is Unknown; `reason` is one word, `message` for a person."""

    type: str
    holds: bool | None
    reason: str
    message: str = ""


def timestamp(moment: datetime) -> str:
    """A time as the API server writes it. `moment` is aware."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rendered(
    conditions: Iterable[Condition], before: Mapping[str, Any], generation: int, now: datetime
) -> list[dict[str, Any]]:
    """The conditions as a status holds them. `before` is the former status: what does not change keeps its time."""
    former = {item.get("type"): item for item in before.get("conditions") or ()}
    return [_one(condition, former.get(condition.type, {}), generation, now) for condition in conditions]


def _one(condition: Condition, former: Mapping[str, Any], generation: int, now: datetime) -> dict[str, Any]:
    word = _WORDS[condition.holds]
    kept = former.get("lastTransitionTime") if former.get("status") == word else None
    return {
        "type": condition.type,
        "status": word,
        "observedGeneration": generation,
        "lastTransitionTime": kept or timestamp(now),
        "reason": condition.reason,
        "message": condition.message[:MESSAGE_LIMIT],
    }
