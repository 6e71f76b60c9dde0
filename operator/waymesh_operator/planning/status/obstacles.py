"""The obstacles of all parts of a mesh, as its status shows them: none hides another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from waymesh_operator.planning.parts import PARTS, Obstacle
from waymesh_operator.routers.observed import Trouble

from .conditions import MESSAGE_LIMIT, SHOWN, MeshSnapshot

_MOST = 20
"""Maximum number of rows in a status."""


def stalling(seen: MeshSnapshot) -> list[Obstacle]:
    """Return why objects cannot be as desired, by part: as planned, and as the API server answered."""
    found = [one for one in (*seen.desired.obstacles.found, *seen.obstacles) if one.stalls]
    return sorted(dict.fromkeys(found), key=lambda one: PARTS.index(one.part))


def all_obstacles(seen: MeshSnapshot, troubles: Iterable[tuple[str, Trouble]]) -> list[Obstacle]:
    """Return all obstacles by part. `troubles`: by router, why it cannot run until somebody acts."""
    missing = [one for one in seen.desired.obstacles.found if not one.stalls]
    routers = [Obstacle("workload", trouble.word, f"{name}: {trouble}") for name, trouble in troubles]
    return sorted((*missing, *stalling(seen), *routers), key=lambda one: PARTS.index(one.part))


def reason_and_message(found: Sequence[Obstacle]) -> tuple[str, str]:
    """Return reason and message of a condition: the first reason, and for each part its message, as long as it can be
    with the others beside it."""
    parts = list(dict.fromkeys(one.part for one in found))
    each = MESSAGE_LIMIT // len(parts) - 2
    texts = (f"{part}: {_join([one.message for one in found if one.part == part])}" for part in parts)
    return found[0].reason, "; ".join(text if len(text) <= each else f"{text[: each - 1]}…" for text in texts)


def rows(found: Sequence[Obstacle]) -> list[dict[str, str]]:
    """Return the rows of `status.obstacles`."""
    return [
        {"part": one.part, "reason": one.reason, "message": one.message[:MESSAGE_LIMIT]} for one in found[:_MOST]
    ]


def _join(messages: Sequence[str]) -> str:
    more = f"; and {len(messages) - SHOWN} more" if len(messages) > SHOWN else ""
    return "; ".join(messages[:SHOWN]) + more
