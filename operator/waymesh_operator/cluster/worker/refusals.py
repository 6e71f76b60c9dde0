"""Steps that routers have refused. They are told in the status, and tried again with each resync only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from waymesh_operator.cluster.actions import ClusterAction, DrainRouter, EntityAction, UndrainRouter
from waymesh_operator.cluster.apply import Result

Which = tuple[str, tuple[str, str]]
"""A router's id and an `Entity.key`."""
_DRAIN = ("drain", "")


@dataclass(slots=True)
class Refusals:
    """What was refused, why, and when."""

    clock: Callable[[], float]
    again_s: float
    _known: dict[Which, tuple[str, float]] = field(default_factory=dict)

    @property
    def reasons(self) -> dict[Which, str]:
        """The reason for each entity that a router would not take."""
        return {which: reason for which, (reason, _) in self._known.items()}

    def due(self, actions: Iterable[ClusterAction]) -> list[ClusterAction]:
        """The steps without those refused a short while ago."""
        now = self.clock()
        return [action for action in actions if now - self._refused_at(action) >= self.again_s]

    def note(self, planned: Iterable[ClusterAction], result: Result) -> None:
        """Keep what is planned and was refused; what was taken, or is wanted no more, is forgotten."""
        open_ = {_which(action) for action in planned} - {_which(action) for action in result.taken}
        self._known = {which: known for which, known in self._known.items() if which in open_}
        for outcome in result.refused:
            self._known[_which(outcome.action)] = (outcome.error, self.clock())

    def _refused_at(self, action: ClusterAction) -> float:
        return self._known.get(_which(action), ("", float("-inf")))[1]


def _which(action: ClusterAction) -> Which:
    if isinstance(action, EntityAction):
        return action.router_id, action.entity.key
    if isinstance(action, DrainRouter | UndrainRouter):
        return action.router_id, _DRAIN
    return "", ("", "")
