"""Messages of one router that arrive in another order than sent: its addresses come to be known all the same."""

from __future__ import annotations

from typing import Any

import pytest

from waymesh_router.routing.effects import MobileAdd, MobileDel, SendTo
from waymesh_router.routing.engine import REMEMBERED_S, RoutingEngine
from waymesh_router.routing.sequences import OVERTAKEN_S
from waymesh_router.routing.settings import RoutingSettings

pytestmark = pytest.mark.engine_independent

QUIET_S = 5.0
"""Long enough for all repetitions of a request, shorter than the interval of RAs at rest."""


def body(router_id: str, **more: object) -> dict[str, Any]:
    return {"id": router_id, "pv": 1, "area": "0", **more}


class Listener:
    """Router A beside B, of which it has the link state and at first no table. `table`: what its core was told of B."""

    def __init__(self) -> None:
        self.table: dict[str, int] = {}
        self.asked: list[tuple[float, object]] = []
        """Its requests for B's table: time and `have_seq`."""
        self._router = RoutingEngine(RoutingSettings("A", instance=7), 1.0)
        self._router.link_up(1, 1, 1.0)
        self._hears("HELLO", body("B", instance=7, seen=["A"]), 1.0)
        state = {"id": "B", "area": "0", "ls_seq": 5, "peers": {"A": 1}}
        self._hears("LSU", body("B", instance=7, ls_seq=5, ls=state), 1.0)

    @property
    def complete(self) -> bool:
        return self._router.complete()

    def advertised(self, seq: int, now: float) -> None:
        self._hears("RA", body("B", instance=7, ls_seq=5, mobile_seq=seq), now)

    def added(self, seq: int, key: str, now: float) -> None:
        self._hears("MAU", body("B", mobile_seq=seq, add=[key], hints=[3]) | {"del": []}, now)

    def answered(self, seq: int, keys: list[str], now: float) -> None:
        self._hears("MAU", body("B", mobile_seq=seq, exist=keys, hints=[3] * len(keys)), now)

    def until(self, now: float) -> None:
        """Everything that is due until then. B's connection stays alive."""
        while self._router.deadline() <= now:
            at = self._router.deadline()
            self._router.link_heard(1, at)
            self._take(self._router.tick(at), at)

    def _hears(self, opcode: str, told: dict[str, Any], now: float) -> None:
        self.until(now)
        self._take(self._router.on_control(1, opcode, told, now), now)

    def _take(self, effects: list[Any], now: float) -> None:
        for effect in effects:
            if isinstance(effect, MobileAdd):
                self.table[effect.key] = effect.treatment
            elif isinstance(effect, MobileDel):
                del self.table[effect.key]
            elif isinstance(effect, SendTo) and effect.opcode == "MAR":
                self.asked.append((now, effect.body["have_seq"]))


def test_the_former_of_two_answers_comes_last() -> None:
    """The order of events that was seen when a hundred routers started: the answer to the first request took longer
    than that to its repetition, and than all changes after it.
    """
    router = Listener()
    router.advertised(10, 1.01)
    router.added(11, "M0b", 1.02)
    router.added(12, "M0c", 1.03)
    router.advertised(12, 1.04)
    router.until(1.15)
    assert [have for _, have in router.asked] == [0, 0]
    router.answered(12, ["M0a", "M0b", "M0c"], 1.16)
    router.answered(10, ["M0a"], 1.18)
    assert router.table.keys() == {"M0a", "M0b", "M0c"}
    router.until(1.18 + QUIET_S)
    assert router.complete
    assert len(router.asked) == 2


def test_a_former_difference_comes_after_a_table() -> None:
    router = Listener()
    router.answered(12, ["M0a", "M0b"], 1.1)
    asked = len(router.asked)
    router.added(11, "M0b", 1.11)
    router.added(13, "M0c", 1.12)
    assert router.table.keys() == {"M0a", "M0b", "M0c"}
    assert len(router.asked) == asked


def test_a_former_advertisement_does_not_end_a_request() -> None:
    """What it advertises is known here, what the update before it told is not; the first answer is lost."""
    router = Listener()
    router.answered(10, ["M0a"], 1.1)
    router.asked.clear()
    router.added(12, "M0c", 1.2)
    router.advertised(10, 1.21)
    router.until(1.25)
    assert not router.complete
    router.until(2.0)
    assert len(router.asked) >= 2
    router.answered(12, ["M0a", "M0b", "M0c"], 2.01)
    assert router.table.keys() == {"M0a", "M0b", "M0c"}
    router.until(2.01 + QUIET_S)
    assert router.complete


def test_a_former_advertisement_is_forgotten_with_the_next_one() -> None:
    router = Listener()
    router.answered(12, ["M0a"], 1.1)
    router.asked.clear()
    router.advertised(11, 1.2)
    router.advertised(12, 1.21)
    router.until(1.21 + QUIET_S)
    assert router.asked == []
    assert router.complete


def test_a_former_advertisement_that_comes_last_costs_one_request_that_is_answered_always() -> None:
    router = Listener()
    router.answered(12, ["M0a"], 1.1)
    router.asked.clear()
    router.advertised(11, 1.2)
    router.until(1.2 + REMEMBERED_S)
    assert router.asked == [(1.2 + REMEMBERED_S, 0)]
    router.answered(12, ["M0a"], 1.5)
    router.until(1.5 + QUIET_S)
    assert len(router.asked) == 1
    assert router.complete


def test_a_restart_within_one_second_is_believed_when_answers_say_so_for_a_second() -> None:
    router = Listener()
    router.answered(12, ["M0old"], 1.1)
    router.advertised(2, 1.2)
    router.until(1.2 + REMEMBERED_S)
    router.answered(2, ["M0new"], 1.5)
    assert router.table.keys() == {"M0old"}, "it could be late"
    believed = 1.2 + OVERTAKEN_S + 0.01
    router.asked.clear()
    router.until(believed)
    assert router.asked, "until an answer is believed"
    router.answered(2, ["M0new"], believed)
    assert router.table.keys() == {"M0new"}
    router.added(3, "M0newer", believed + 0.01)
    assert router.table.keys() == {"M0new", "M0newer"}
    router.until(believed + QUIET_S)
    assert router.complete
