"""Two routers with one id (docs/protocol/inter-router.md, "Routers with the same id")."""

from __future__ import annotations

from typing import Any

import pytest

from waymesh_router.routing.effects import Effect, LogEvent, MobileFlush, NodeDown, RefuseRouter, SendTo, SetLink
from waymesh_router.routing.engine import RoutingEngine
from waymesh_router.routing.settings import RoutingSettings

pytestmark = pytest.mark.engine_independent

OLD, NEW = 7, 8
NEIGHBOUR, NEWCOMER, THIRD = 1, 2, 3


def body(router_id: str, **more: object) -> dict[str, Any]:
    return {"id": router_id, "pv": 1, "area": "0", **more}


def hello(router_id: str, instance: int = OLD, seen: tuple[str, ...] = ("A",)) -> dict[str, Any]:
    return body(router_id, instance=instance, seen=list(seen))


def ra(router_id: str, ls_seq: int = 1, instance: int = OLD) -> dict[str, Any]:
    return body(router_id, instance=instance, ls_seq=ls_seq, mobile_seq=0)


def lsu(router_id: str, instance: int = OLD, ls_seq: int = 1, **peers: int) -> dict[str, Any]:
    state = {"id": router_id, "area": "0", "ls_seq": ls_seq, "peers": peers}
    return body(router_id, instance=instance, ls_seq=ls_seq, ls=state)


def with_neighbour(router_id: str = "B", **peers: int) -> RoutingEngine:
    """Router A at time 1 with one neighbour, and the newcomer's link; the neighbour has these links besides."""
    router = RoutingEngine(RoutingSettings("A", instance=100), 0.0)
    router.link_up(NEIGHBOUR, 1, 0.0)
    router.on_control(NEIGHBOUR, "HELLO", hello(router_id), 0.9)
    router.on_control(NEIGHBOUR, "LSU", lsu(router_id, A=1, **peers), 0.91)
    router.on_control(NEIGHBOUR, "RA", ra(router_id), 0.92)
    run(router, 1.0)
    router.link_up(NEWCOMER, 1, 1.0)
    return router


def with_distant() -> RoutingEngine:
    """Router A at time 1 with neighbour B, and C behind it."""
    router = with_neighbour("B", C=1)
    router.on_control(NEIGHBOUR, "LSU", lsu("C", B=1), 1.0)
    run(router, 1.0)
    assert set(router.nodes) == {"B", "C"}
    return router


def run(router: RoutingEngine, until: float) -> list[Effect]:
    """All effects of ticks up to a time."""
    effects: list[Effect] = []
    while (at := router.deadline()) <= until:
        effects += router.tick(at)
    return effects


def of(kind: type, effects: list[Effect]) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


def asked(effects: list[Effect]) -> set[str]:
    return {effect.router_id for effect in of(SendTo, effects) if effect.opcode == "LSR"}


def critical(effects: list[Effect]) -> list[str]:
    return [effect.text for effect in of(LogEvent, effects) if effect.level == "critical"]


def assert_undisturbed(effects: list[Effect]) -> None:
    for kind in (SetLink, NodeDown, MobileFlush):
        assert not of(kind, effects)


def test_a_newcomer_waits_while_the_neighbour_with_its_id_may_live() -> None:
    router = with_neighbour()
    effects = router.on_control(NEWCOMER, "HELLO", hello("B", NEW), 1.1)
    assert_undisturbed(effects)
    assert not of(RefuseRouter, effects)
    assert router.nodes["B"].instance == OLD


def test_a_hello_of_the_neighbour_refuses_the_newcomer() -> None:
    router = with_neighbour()
    effects = router.on_control(NEWCOMER, "HELLO", hello("B", NEW), 1.1)
    effects += run(router, 1.8)
    effects += router.on_control(NEIGHBOUR, "HELLO", hello("B"), 1.9)
    assert of(RefuseRouter, effects) == [RefuseRouter(NEWCOMER, "B", NEW, OLD)]
    assert not of(RefuseRouter, router.link_lost(NEWCOMER, 1.9) + run(router, 2.8))
    assert_undisturbed(effects)
    assert router.nodes["B"].link_id == NEIGHBOUR


def test_the_neighbour_is_asked_so_that_its_next_hello_need_not_be_awaited() -> None:
    router = with_neighbour()
    router.on_control(NEWCOMER, "HELLO", hello("B", NEW), 1.1)
    assert asked(run(router, 1.34)) == set()
    assert asked(run(router, 1.36)) == {"B"}
    effects = router.on_control(NEIGHBOUR, "LSU", lsu("B", A=1), 1.37)
    assert of(RefuseRouter, effects) == [RefuseRouter(NEWCOMER, "B", NEW, OLD)]


def test_what_a_killed_router_had_sent_is_no_sign_of_life() -> None:
    router = with_neighbour()
    router.on_control(NEWCOMER, "HELLO", hello("B", NEW), 1.1)
    effects = router.on_control(NEIGHBOUR, "HELLO", hello("B"), 1.2)
    effects += router.on_control(NEIGHBOUR, "RA", ra("B"), 1.2)
    effects += run(router, 2.3)
    assert not of(RefuseRouter, effects)
    assert router.nodes["B"].link_id == NEWCOMER


def test_a_restarted_router_has_its_link_as_soon_as_the_old_connection_is_lost() -> None:
    router = with_neighbour()
    router.on_control(NEWCOMER, "HELLO", hello("B", NEW), 1.1)
    router.link_lost(NEIGHBOUR, 1.11)
    run(router, 1.12)
    assert (router.nodes["B"].link_id, router.nodes["B"].instance) == (NEWCOMER, NEW)


def test_a_restarted_router_has_its_link_after_one_silent_interval_of_the_old_connection() -> None:
    router = with_neighbour()
    effects = router.on_control(NEWCOMER, "HELLO", hello("B", NEW), 1.1)
    effects += run(router, 2.0)
    assert router.nodes["B"].link_id == NEIGHBOUR
    effects += router.on_control(NEWCOMER, "HELLO", hello("B", NEW, seen=()), 2.05)
    effects += router.on_control(NEWCOMER, "HELLO", hello("B", NEW), 2.06)
    effects += run(router, 2.11)
    assert (router.nodes["B"].link_id, router.nodes["B"].instance) == (NEWCOMER, NEW)
    assert any("restart" in effect.text for effect in of(LogEvent, effects))
    assert not critical(effects)
    router.on_control(NEWCOMER, "LSU", lsu("B", NEW, 2, A=1), 2.2)
    assert router.nodes["B"].link_state == {"A": 1}


def test_the_silence_counts_from_the_last_octet() -> None:
    router = with_neighbour()
    router.on_control(NEWCOMER, "HELLO", hello("B", NEW), 1.1)
    router.link_heard(NEIGHBOUR, 1.9)
    run(router, 2.8)
    assert router.nodes["B"].link_id == NEIGHBOUR
    run(router, 3.0)
    assert router.nodes["B"].link_id == NEWCOMER


def test_two_connections_of_a_restarted_router_are_taken_together() -> None:
    router = with_neighbour()
    router.link_up(THIRD, 1, 1.0)
    for link_id in (NEWCOMER, THIRD):
        router.on_control(link_id, "HELLO", hello("B", NEW), 1.1)
    run(router, 2.2)
    assert router.nodes["B"].link_id == NEWCOMER
    router.link_lost(NEWCOMER, 2.3)
    assert router.nodes["B"].link_id == THIRD


def test_a_second_connection_of_a_neighbour_is_no_newcomer() -> None:
    router = with_neighbour()
    effects = router.on_control(NEWCOMER, "HELLO", hello("B"), 1.1) + run(router, 1.5)
    effects += router.on_control(NEIGHBOUR, "HELLO", hello("B"), 1.6)
    effects += router.on_control(NEWCOMER, "HELLO", hello("B"), 1.6)
    assert not of(RefuseRouter, effects)
    router.link_lost(NEIGHBOUR, 1.7)
    assert router.nodes["B"].link_id == NEWCOMER


def test_a_newcomer_that_leaves_is_forgotten() -> None:
    router = with_neighbour()
    router.on_control(NEWCOMER, "HELLO", hello("B", NEW), 1.1)
    router.link_lost(NEWCOMER, 1.2)
    effects = run(router, 2.5)
    assert not of(RefuseRouter, effects)
    assert asked(effects) == set()
    assert router.nodes["B"].link_id == NEIGHBOUR


def test_a_stall_of_ours_is_not_the_silence_of_the_neighbour() -> None:
    router = with_neighbour()
    router.on_control(NEWCOMER, "HELLO", hello("B", NEW), 1.1)
    router.tick(20.0)
    assert router.nodes["B"].link_id == NEIGHBOUR
    effects = run(router, 20.3) + router.on_control(NEIGHBOUR, "HELLO", hello("B"), 20.4)
    assert of(RefuseRouter, effects) == [RefuseRouter(NEWCOMER, "B", NEW, OLD)]


def test_a_newcomer_is_refused_for_a_router_that_lives_elsewhere() -> None:
    router = with_distant()
    router.on_control(NEIGHBOUR, "RA", ra("C"), 1.0)
    effects = router.on_control(NEWCOMER, "HELLO", hello("C", NEW), 1.1)
    assert asked(run(router, 1.36)) == {"C"}
    effects += router.on_control(NEIGHBOUR, "LSU", lsu("C", B=1), 1.4)
    assert of(RefuseRouter, effects) == [RefuseRouter(NEWCOMER, "C", NEW, OLD)]
    assert_undisturbed(effects)
    assert router.nodes["C"].next_hop == "B"


def test_a_router_that_moved_here_has_its_link_when_its_former_instance_does_not_answer() -> None:
    router = with_distant()
    router.on_control(NEIGHBOUR, "RA", ra("C"), 1.0)
    router.on_control(NEWCOMER, "HELLO", hello("C", NEW), 1.1)
    run(router, 2.11)
    assert (router.nodes["C"].link_id, router.nodes["C"].instance) == (NEWCOMER, NEW)


def test_a_router_that_moved_here_has_its_link_when_its_former_one_is_announced_as_lost() -> None:
    router = with_distant()
    router.on_control(NEIGHBOUR, "RA", ra("C"), 1.0)
    router.on_control(NEWCOMER, "HELLO", hello("C", NEW), 1.1)
    router.on_control(NEIGHBOUR, "LSU", lsu("B", OLD, 2, A=1), 1.2)
    run(router, 1.25)
    assert (router.nodes["C"].link_id, router.nodes["C"].instance) == (NEWCOMER, NEW)


def test_our_own_id_is_refused_at_once() -> None:
    router = with_neighbour()
    effects = router.on_control(NEWCOMER, "HELLO", hello("A", 99), 1.1)
    assert of(RefuseRouter, effects) == [RefuseRouter(NEWCOMER, "A", 99, 100)]
    assert "A" not in router.nodes


def test_what_another_router_says_with_the_id_of_a_neighbour_is_ignored() -> None:
    """The other one is connected to a router that does not refuse it."""
    router = with_neighbour()
    effects: list[Effect] = []
    for at in range(2, 6):
        effects += router.on_control(NEIGHBOUR, "HELLO", hello("B"), float(at))
        effects += router.on_control(NEIGHBOUR, "RA", ra("B", 50, NEW), at + 0.1)
        effects += router.on_control(NEIGHBOUR, "LSU", lsu("B", NEW, 50, X=1), at + 0.2)
    assert_undisturbed(effects)
    assert router.nodes["B"].link_state == {"A": 1}
    assert len(critical(effects)) == 1
    assert "id B" in critical(effects)[0]
    assert str(NEW) in critical(effects)[0]
    assert str(OLD) in critical(effects)[0]


def test_two_distant_routers_with_one_id_are_told_once() -> None:
    router = with_distant()
    texts: list[str] = []
    for at in range(2, 20, 2):
        for instance, later in ((OLD, 0), (NEW, 1)):
            texts += critical(router.on_control(NEIGHBOUR, "RA", ra("C", 3, instance), float(at + later)))
    assert len(texts) == 1


def test_a_restart_is_not_told_as_two_routers_even_if_former_messages_come_late() -> None:
    router = with_distant()
    effects = router.on_control(NEIGHBOUR, "RA", ra("C", 3), 2.0)
    effects += router.on_control(NEIGHBOUR, "RA", ra("C", 9, NEW), 3.0)
    effects += router.on_control(NEIGHBOUR, "RA", ra("C", 3), 3.4)
    for at in range(4, 9):
        effects += router.on_control(NEIGHBOUR, "RA", ra("C", 9, NEW), float(at))
    assert not critical(effects)


def test_our_own_id_elsewhere_in_the_mesh_is_told_once() -> None:
    router = with_neighbour()
    texts = [critical(router.on_control(NEIGHBOUR, "RA", ra("A", 3, 99), at)) for at in (1.5, 2.5, 3.5)]
    assert [len(some) for some in texts] == [1, 0, 0]
    assert not critical(router.on_control(NEIGHBOUR, "RA", ra("A", 3, 100), 4.0))
