"""Which actions have failed at routers, and when they are tried again. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from waymesh_operator.planning.actions import Action
from waymesh_operator.router_entities.actions import DrainRouter, EntityAction, MoveClients, UndrainRouter

from .place import Result

RefusalKey = tuple[str, tuple[str, str]]
"""A router's id and an `Entity.key`."""
_DRAIN = ("drain", "")
_SHARE = ("router", "share")


FIRST_S = 1.0
"""Seconds after which a refused action is tried again. They double with each refusal. A router accepts some actions a
moment later, when a file that they need has arrived."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    reason: str
    at: float
    wait_s: float


@dataclass(slots=True)
class Refusals:
    """What was refused, why, and when. A refused action is tried again after at most `again_s`."""

    clock: Callable[[], float]
    again_s: float
    _known: dict[RefusalKey, _Refusal] = field(default_factory=dict)

    @property
    def reasons(self) -> dict[RefusalKey, str]:
        """The reason for each entity that a router refused."""
        return {which: refusal.reason for which, refusal in self._known.items()}

    @property
    def soon(self) -> bool:
        """Whether an action is tried again before the next resync."""
        return any(refusal.wait_s < self.again_s for refusal in self._known.values())

    def due(self, actions: Iterable[Action]) -> list[Action]:
        """The actions without those that were refused recently."""
        now = self.clock()
        return [action for action in actions if self._is_due(_which(action), now)]

    def note(self, planned: Iterable[Action], result: Result) -> None:
        """Keep refusals of planned actions; forget those that were accepted or are no longer planned."""
        open_ = {_which(action) for action in planned} - {_which(action) for action in result.taken}
        self._known = {which: known for which, known in self._known.items() if which in open_}
        now = self.clock()
        for outcome in result.refused:
            which = _which(outcome.action)
            former = self._known.get(which)
            wait_s = 2 * former.wait_s if former else FIRST_S
            self._known[which] = _Refusal(outcome.error, now, min(wait_s, self.again_s))

    def _is_due(self, which: RefusalKey, now: float) -> bool:
        refusal = self._known.get(which)
        return refusal is None or now - refusal.at >= refusal.wait_s


def _which(action: Action) -> RefusalKey:
    if isinstance(action, EntityAction):
        return action.router_id, action.entity.key
    if isinstance(action, DrainRouter | UndrainRouter):
        return action.router_id, _DRAIN
    if isinstance(action, MoveClients):
        return action.router_id, _SHARE
    return action.router_id, (type(action).__name__, "")
