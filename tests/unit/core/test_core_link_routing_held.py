"""Attaches that wait for a container to tell its limits; by which steps is in tests/spec/test_spec_routed_limits.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.kit.pump import core_hub
from waymesh_router.core.attaching import Refusal
from waymesh_router.core.link_routing.held import IN_VAIN, TRY_COST, HeldAttaches
from waymesh_router.core.portions import COST_A_TURN, Portions

A_TURN = COST_A_TURN // TRY_COST


class Scene:
    """A connection to wait for, and a client with links that wait."""

    def __init__(self) -> None:
        self.hub = core_hub()
        self.there: Any = self.hub.peer().open().begin().conn
        self.client = SimpleNamespace(over=False)
        self.refused: list[str] = []
        self.portions = Portions()
        self.held = HeldAttaches(self.portions, lambda lk, refusal: self.refused.append(lk.name))
        self.tried: list[str] = []

    def hold(self, name: str, then: str = "") -> None:
        """`then`: "refuse", "hold" again, or forward."""
        lk: Any = SimpleNamespace(name=name, unanswered=lambda: not self.client.over)

        def again() -> None:
            self.tried.append(name)
            if then == "hold":
                self.held.add(self.there, lk, again)
            elif then == "refuse":
                raise Refusal("amqp:not-allowed", "no room")

        self.held.add(self.there, lk, again)


def test_they_are_tried_in_their_order_when_a_session_begins() -> None:
    scene = Scene()
    for name, then in (("one", ""), ("two", "refuse"), ("three", "hold")):
        scene.hold(name, then)
    session = next(iter(scene.there.sessions.values()))
    session.remote_handle_max = 7
    scene.held.session_begun(session)
    assert (scene.tried, scene.refused, scene.there.handle_max) == (["one", "two", "three"], ["two"], 7)
    scene.held.tick()
    assert scene.tried[3:] == ["three"]


def test_a_turn_tries_a_few_of_them() -> None:
    scene = Scene()
    for number in range(A_TURN + 1):
        scene.hold(str(number))
    scene.held.tick()
    assert len(scene.tried) == A_TURN
    scene.portions.run()
    assert len(scene.tried) == A_TURN + 1
    assert not scene.portions


def test_after_some_in_vain_the_others_are_not_tried_until_a_session_begins() -> None:
    scene = Scene()
    for number in range(A_TURN):
        scene.hold(str(number), "hold")
    scene.held.tick()
    scene.portions.run()
    assert scene.tried == [str(number) for number in range(IN_VAIN)]
    assert not scene.portions
    scene.held.session_begun(next(iter(scene.there.sessions.values())))
    assert len(scene.tried) == 2 * IN_VAIN


def test_if_a_session_begins_amid_a_round_it_goes_on() -> None:
    scene = Scene()
    for number in range(3):
        scene.hold(f"forwarded {number}")
    for number in range(2 * A_TURN):
        scene.hold(f"held {number}", "hold")
    scene.held.tick()
    assert len(scene.tried) == A_TURN
    scene.held.session_begun(next(iter(scene.there.sessions.values())))
    scene.portions.run()
    assert len(scene.tried) == A_TURN + IN_VAIN


def test_links_that_have_ended_are_left_out() -> None:
    scene = Scene()
    scene.hold("gone")
    scene.client.over = True
    scene.held.tick()
    assert scene.tried == []
