"""The router's own work is done when it is due or when events have left some, and not in other turns."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import core_hub, core_of
from waymesh_router.core.core import Core
from waymesh_router.core.forwarding.expiry import A_TURN
from waymesh_router.due_work import DueWork

NEXT = 0.25
"""Seconds from one deadline to the next."""


class Walk:
    """Long work; what a step of it does is no matter here."""

    def step(self) -> int:
        return 1


def _namespace(**values: object) -> Any:
    return SimpleNamespace(**values)


class Scene:
    """A core with a client. `calls`: when its work was done."""

    def __init__(self) -> None:
        self.hub = core_hub()
        self.core: Core = core_of(self.hub)
        self.mesh = _namespace(deadline=math.inf, listen_at=math.inf)
        self.management = _namespace(long_queries={})
        self.calls: list[float] = []
        self.broken = False
        self.following = NEXT
        self.due = DueWork(self.core, self.mesh, self.management, self._work)

    def _work(self, now: float) -> float:
        self.calls.append(now)
        if self.broken:
            raise RuntimeError("a bug")
        return now + self.following

    def runs(self, now: float) -> bool:
        """Whether a turn at this time does the work."""
        before = len(self.calls)
        self.due.run(now)
        assert self.core.now == now
        return len(self.calls) > before


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.hub.peer().open()
    assert scene.core.connections
    return scene


def test_nothing_is_done_before_the_deadline_and_all_at_it(scene: Scene) -> None:
    assert scene.due.run(100.0) == 100.0 + NEXT
    assert scene.due.run(100.1) == 100.0 + NEXT
    assert scene.calls == [100.0]
    assert scene.due.run(100.0 + NEXT) == 100.0 + 2 * NEXT
    assert scene.calls == [100.0, 100.0 + NEXT]


def _dict(table: Any) -> dict[object, object]:
    """The same table, of anything."""
    found: dict[object, object] = table
    return found


def _list(table: Any) -> list[object]:
    """The same list, of anything."""
    found: list[object] = table
    return found


LEFT: dict[str, Callable[[Scene], object]] = {
    "a walk": lambda scene: scene.core.context.portions.walks.update({Walk(): None}),
    "a long query": lambda scene: scene.management.long_queries.update({None: "query"}),
    "links of a lost connection": lambda scene: _dict(scene.core.ending).update({1: None}),
    "windows that have room": lambda scene: _dict(scene.core.spread.freed).update({1: None}),
    "an address at which deliveries began to wait": lambda scene: _dict(scene.core.spread.began).update({1: None}),
    "an address with message groups that has changed": lambda scene: _dict(scene.core.demand.groups.unseen).update(
        {1: None}
    ),
    "an autolink whose consumers are ready for more": lambda scene: _list(scene.core.pacing.changed).append(None),
    "consumers of an address with autolinks that are ready for more": lambda scene: _dict(
        scene.core.pacing.grown
    ).update({1: None}),
    "more kept than allowed": lambda scene: setattr(scene.core.budget, "excess", True),
    "an earlier deadline of the control plane": lambda scene: setattr(scene.mesh, "deadline", 100.2),
}


@pytest.mark.parametrize("left", LEFT)
def test_what_an_event_has_left_is_done_in_the_next_turn(scene: Scene, left: str) -> None:
    scene.due.run(100.0)
    assert not scene.runs(100.1)
    LEFT[left](scene)
    assert scene.runs(100.11)
    assert scene.runs(100.12), "until nothing is left"


def test_the_next_portion_of_what_waits_is_sent_without_the_other_work(scene: Scene) -> None:
    scene.due.run(100.0)
    consumer = scene.hub.peer().open().begin(incoming_window=5000)
    consumer.send(frames.attach_receiver())
    for _ in range(25):
        sender = scene.hub.peer().open().begin()
        sender.send(frames.attach_sender(), *(frames.transfer(number) for number in range(100)))
    consumer.take()
    scene.core.expiry.left = 3  # others have used up most of this turn
    consumer.end.feed(frames.credit(5000, incoming_window=5000))
    sent = len(consumer.take())
    now, turns = 100.0, 0
    while sent < 2500:
        assert sent <= 16 + turns * 4 * (A_TURN + 1), "a portion in a turn"
        now, turns = now + 0.001, turns + 1
        following = scene.due.run(now)
        assert following == (now if scene.core.expiry.links else 100.0 + NEXT)
        sent += len(consumer.take())
        assert turns < 10
    assert turns >= 2
    assert scene.due.run(now + 0.001) == 100.0 + NEXT
    assert not scene.core.expiry.busy
    assert scene.calls == [100.0]


def test_neighbours_are_heard_at_their_time(scene: Scene) -> None:
    scene.mesh.listen_at = 100.05
    assert scene.due.run(100.0) == 100.0 + NEXT, "no reason to wake up"
    assert not scene.runs(100.04)
    assert scene.runs(100.06)


def test_work_that_raises_is_due_in_the_next_turn(scene: Scene) -> None:
    scene.due.run(100.0)
    scene.broken = True
    with pytest.raises(RuntimeError, match="a bug"):
        scene.due.run(101.0)
    scene.broken = False
    assert scene.runs(101.01)
    assert not scene.runs(101.02)


def test_without_connections_each_turn_looks_at_all() -> None:
    """Nothing is regular then: the deadline may be infinite, and the first connection must not wait for it."""
    scene = Scene()
    scene.following = math.inf
    assert scene.due.run(100.0) == math.inf
    scene.hub.peer().open()
    scene.following = NEXT
    assert scene.runs(100.1)
    assert not scene.runs(100.2)


def test_an_edge_router_has_no_control_plane(scene: Scene) -> None:
    due = DueWork(scene.core, None, scene.management, scene._work)
    assert due.run(100.0) == 100.0 + NEXT
    due.run(100.1)
    assert scene.calls == [100.0]
