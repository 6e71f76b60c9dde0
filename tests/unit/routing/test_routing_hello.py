"""HELLO and neighbours (inter-router.md, "Control messages")."""

from __future__ import annotations

from typing import Any

import pytest

from waymesh_router.routing.effects import Effect, NodeDown, NodeUp, SendAll, SendHello, SendTo, SetLink
from waymesh_router.routing.engine import RoutingEngine
from waymesh_router.routing.neighbours import EXTRA_HELLO_SPACING_S
from waymesh_router.routing.settings import RoutingSettings

pytestmark = pytest.mark.engine_independent


def engine() -> RoutingEngine:
    return RoutingEngine(RoutingSettings("A", instance=100), 0.0)


def hello(router_id: str = "B", instance: int = 7, seen: tuple[str, ...] = ("A",)) -> dict[str, Any]:
    return {"id": router_id, "pv": 1, "area": "0", "instance": instance, "seen": list(seen)}


def hellos(effects: list[Effect]) -> list[tuple[int, list[str]]]:
    return [(effect.link_id, effect.body["seen"]) for effect in effects if isinstance(effect, SendHello)]  # type: ignore[misc]


def of(kind: type, effects: list[Effect]) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


def run(router: RoutingEngine, until: float) -> list[Effect]:
    """All effects of ticks up to a time."""
    effects: list[Effect] = []
    while (at := router.deadline()) <= until:
        effects += router.tick(at)
    return effects


def test_a_new_link_is_greeted_at_once() -> None:
    effects = engine().link_up(5, 1, 0.0)
    assert effects == [SendHello(5, {"id": "A", "pv": 1, "area": "0", "instance": 100, "seen": []})]


def test_a_hello_goes_out_every_interval() -> None:
    router = engine()
    router.link_up(5, 1, 0.0)
    assert hellos(run(router, 4.5)) == [(5, [])] * 4


def test_news_is_answered_at_once() -> None:
    router = engine()
    router.link_up(5, 1, 0.0)
    assert hellos(router.on_control(5, "HELLO", hello(seen=()), 0.5)) == [(5, ["B"])]
    assert hellos(router.on_control(5, "HELLO", hello(seen=("A",)), 0.6)) == [(5, ["B"])]
    assert hellos(router.on_control(5, "HELLO", hello(seen=("A",)), 0.7)) == []


def test_extra_hellos_are_limited_for_each_link() -> None:
    router = engine()
    router.link_up(5, 1, 0.0)
    router.on_control(5, "HELLO", hello(seen=()), 0.5)
    assert hellos(router.on_control(5, "HELLO", hello(seen=("A",)), 0.501)) == []
    assert router.deadline() == pytest.approx(0.5 + EXTRA_HELLO_SPACING_S)
    assert hellos(router.tick(router.deadline())) == [(5, ["B"])]


def test_a_neighbour_counts_only_when_its_hello_names_us() -> None:
    router = engine()
    router.link_up(5, 1, 0.0)
    assert not of(NodeUp, router.on_control(5, "HELLO", hello(seen=("C",)), 0.1))
    effects = router.on_control(5, "HELLO", hello(), 0.2)
    assert of(NodeUp, effects) == [NodeUp("B")]
    assert of(SetLink, effects) == [SetLink("B", 5)]
    assert router.local.link_state == {"B": 1}


def test_a_new_neighbour_makes_news_at_once() -> None:
    router = engine()
    router.link_up(5, 3, 0.0)
    effects = router.on_control(5, "HELLO", hello(), 0.2)
    advert = {"id": "A", "pv": 1, "area": "0", "instance": 100, "ls_seq": 1, "mobile_seq": 0}
    assert of(SendAll, effects) == [SendAll("RA", advert, "qdrouter")]
    state = {"id": "A", "area": "0", "ls_seq": 1, "peers": {"B": 3}}
    told = {"id": "A", "pv": 1, "area": "0", "instance": 100, "ls_seq": 1, "ls": state}
    asked = {"id": "A", "pv": 1, "area": "0"}
    assert of(SendTo, effects) == [SendTo("B", "LSU", told, "qdrouter"), SendTo("B", "LSR", asked, "qdrouter")]
    assert router.nodes["B"].cost == 3
    assert effects.index(NodeUp("B")) < effects.index(SetLink("B", 5)) < effects.index(of(SendAll, effects)[0])


def test_a_neighbour_that_no_longer_hears_us_does_not_count() -> None:
    router = engine()
    router.link_up(5, 1, 0.0)
    router.on_control(5, "HELLO", hello(), 0.2)
    assert of(NodeDown, router.on_control(5, "HELLO", hello(seen=()), 0.3)) == [NodeDown("B")]


def test_a_lost_link_drops_the_neighbour_at_once() -> None:
    router = engine()
    router.link_up(5, 1, 0.0)
    router.on_control(5, "HELLO", hello(), 0.2)
    effects = router.link_lost(5, 0.25)
    assert of(SetLink, effects) == [SetLink("B", None)]
    assert of(NodeDown, effects) == [NodeDown("B")]
    assert [effect.body["ls_seq"] for effect in of(SendAll, effects)] == [2]
    assert router.link_lost(5, 0.26) == []


def test_a_silent_neighbour_is_dropped_after_hello_max_age() -> None:
    router = engine()
    router.link_up(5, 1, 0.0)
    router.on_control(5, "HELLO", hello(), 0.5)
    assert not of(NodeDown, run(router, 3.49))
    effects = run(router, 3.51)
    assert of(NodeDown, effects) == [NodeDown("B")]
    assert hellos(run(router, 4.6))[-1] == (5, [])


def test_a_stall_of_ours_is_not_the_neighbours_silence() -> None:
    router = engine()
    router.link_up(5, 1, 0.0)
    router.on_control(5, "HELLO", hello(), 0.5)
    assert not of(NodeDown, router.tick(60.0))
    router.on_control(5, "HELLO", hello(), 60.1)
    assert not of(NodeDown, run(router, 63.0))
    assert of(NodeDown, run(router, 63.2))


def test_seen_has_who_is_heard_on_that_link() -> None:
    router = engine()
    router.link_up(5, 1, 0.0)
    router.link_up(6, 1, 0.0)
    router.on_control(5, "HELLO", hello("B"), 0.5)
    router.on_control(6, "HELLO", hello("C"), 0.5)
    assert sorted(hellos(run(router, 1.6))) == [(5, ["B"]), (6, ["C"])]


@pytest.mark.parametrize(("first", "second", "chosen"), [(1, 1, 5), (2, 1, 6), (1, 2, 5)])
def test_of_parallel_links_the_cheapest_then_the_oldest_is_used(first: int, second: int, chosen: int) -> None:
    router = engine()
    router.link_up(5, first, 0.0)
    router.link_up(6, second, 0.0)
    router.on_control(5, "HELLO", hello(), 0.1)
    router.on_control(6, "HELLO", hello(), 0.1)
    router.tick(0.2)
    assert (router.nodes["B"].link_id, router.nodes["B"].cost) == (chosen, 1)


def test_losing_one_of_two_links_keeps_the_neighbour() -> None:
    router = engine()
    for link_id in (5, 6):
        router.link_up(link_id, 1, 0.0)
        router.on_control(link_id, "HELLO", hello(), 0.1)
    effects = router.link_lost(5, 0.15)
    assert of(SetLink, effects) == [SetLink("B", 6)]
    assert not of(NodeDown, effects)
    assert not of(SendAll, effects), "the link state did not change"
    assert of(NodeDown, router.link_lost(6, 0.3)) == [NodeDown("B")]


def test_our_own_hello_is_ignored() -> None:
    router = engine()
    router.link_up(5, 1, 0.0)
    assert router.on_control(5, "HELLO", hello("A", instance=100), 0.1) == []


def test_a_hello_on_an_unknown_link_is_ignored() -> None:
    router = engine()
    assert not of(NodeUp, router.on_control(9, "HELLO", hello(), 0.1))
    assert not router.nodes


def test_a_neighbour_lives_while_anything_comes_from_it() -> None:
    router = engine()
    router.link_up(5, 1, 0.0)
    router.on_control(5, "HELLO", hello(), 0.5)
    for at in range(1, 10):
        assert of(NodeDown, run(router, at)) == []
        router.link_heard(5, float(at))
    assert of(NodeDown, run(router, 11.9)) == []
    assert of(NodeDown, run(router, 12.1)) == [NodeDown("B")]


def test_octets_of_who_does_not_hear_us_prove_nothing() -> None:
    router = engine()
    router.link_up(5, 1, 0.0)
    router.on_control(5, "HELLO", hello(seen=()), 0.5)
    for at in range(1, 6):
        run(router, at)
        router.link_heard(5, float(at))
    assert hellos(router.tick(router.deadline()))[-1] == (5, [])


def test_a_tick_at_its_deadline_always_gets_on() -> None:
    """Also where rounding makes the time since the last HELLO less than helloMaxAgeSeconds at the deadline."""
    heard_at = next(at for at in (1000 + n / 7 for n in range(1000)) if at + 3.0 - at < 3.0)
    router = engine()
    router.link_up(5, 1, heard_at)
    router.on_control(5, "HELLO", hello(), heard_at)
    deadlines = []
    while (at := router.deadline()) <= heard_at + 3.5:
        router.tick(at)
        deadlines.append(at)
        assert len(deadlines) < 50, deadlines[-3:]
    assert router.local.link_state == {}
