"""RA, LSU, LSR (inter-router.md, "Control messages"): requests, answers, expiry."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from waymesh_router.routing.effects import (
    Effect,
    MobileFlush,
    NodeDown,
    NodeUp,
    SendAll,
    SendTo,
    SetCost,
    SetNextHop,
    TopologyChanged,
)
from waymesh_router.routing.engine import ONE_SIDED_S, RA_REPEAT_S, RA_SPACING_S, REMEMBERED_S, RoutingEngine
from waymesh_router.routing.requests import RETRY_FIRST_S
from waymesh_router.routing.settings import RoutingSettings

pytestmark = pytest.mark.engine_independent

BASE = {"pv": 1, "area": "0"}


def body(router_id: str, **more: object) -> dict[str, Any]:
    return {"id": router_id, **BASE, **more}


def hello(router_id: str, instance: int = 7) -> dict[str, Any]:
    return body(router_id, instance=instance, seen=["A"])


def ra(router_id: str, ls_seq: int, mobile_seq: int = 0, instance: int = 7) -> dict[str, Any]:
    return body(router_id, instance=instance, ls_seq=ls_seq, mobile_seq=mobile_seq)


def lsu(router_id: str, ls_seq: int, instance: int = 7, **peers: int) -> dict[str, Any]:
    state = {"id": router_id, "area": "0", "ls_seq": ls_seq, "peers": peers}
    return body(router_id, instance=instance, ls_seq=ls_seq, ls=state)


def with_neighbour(*ids: str) -> RoutingEngine:
    """Router A at time 1 with these neighbours, each known with the link back to A."""
    router = RoutingEngine(RoutingSettings("A", instance=100), 0.0)
    for link_id, router_id in enumerate(ids, 1):
        router.link_up(link_id, 1, 0.0)
        router.on_control(link_id, "HELLO", hello(router_id), 0.1)
        router.on_control(link_id, "LSU", lsu(router_id, 1, A=1), 0.2)
        router.on_control(link_id, "RA", ra(router_id, 1), 0.2)
        router.on_control(link_id, "MAU", body(router_id, mobile_seq=0, exist=[], hints=[]), 0.2)
    for turn in range(30, 100):
        for link_id, router_id in enumerate(ids, 1):
            router.on_control(link_id, "HELLO", hello(router_id), turn / 100)
        router.tick(turn / 100)
    return router


def sent(effects: list[Effect]) -> list[tuple[str, str]]:
    """Messages to single routers: (router, opcode)."""
    return [(effect.router_id, effect.opcode) for effect in effects if isinstance(effect, SendTo)]


def of(kind: type, effects: list[Effect]) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


def run(router: RoutingEngine, until: float, alive: tuple[str, ...] = ("B",)) -> list[Effect]:
    """All effects up to a time, with neighbours that go on greeting."""
    effects: list[Effect] = []
    while (at := router.deadline()) <= until:
        for link_id, router_id in enumerate(alive, 1):
            effects += router.on_control(link_id, "HELLO", hello(router_id), at)
        effects += router.tick(at)
    return effects


def test_a_newer_link_state_is_asked_for() -> None:
    router = with_neighbour("B")
    assert sent(router.on_control(1, "RA", ra("B", 1), 1.0)) == []
    assert sent(router.on_control(1, "RA", ra("B", 2), 1.0)) == [("B", "LSR")]


def test_an_asked_question_is_not_asked_again_at_once() -> None:
    router = with_neighbour("B")
    router.on_control(1, "RA", ra("B", 2), 1.0)
    assert sent(router.on_control(1, "RA", ra("B", 3), 1.001)) == []
    assert sent(router.on_control(1, "LSU", lsu("B", 2, A=1), 1.002)) == [("B", "LSR")], "2 is not yet 3"
    assert sent(router.on_control(1, "LSU", lsu("B", 3, A=1), 1.003)) == []


def test_an_unanswered_question_is_repeated_more_and_more_rarely_then_each_second() -> None:
    router = with_neighbour("B")
    router.on_control(1, "RA", ra("B", 2), 1.0)
    assert sent(run(router, 1.0 + RETRY_FIRST_S * 1.1)) == [("B", "LSR")]
    assert len(sent(run(router, 2.6))) == 3
    assert 6 <= len(sent(run(router, 10.0))) <= 8
    assert sent(router.on_control(1, "LSU", lsu("B", 2, A=1), 10.0)) == []
    assert sent(run(router, 20.0)) == []


def test_a_question_is_answered_with_our_link_state() -> None:
    router = with_neighbour("B")
    state = {"id": "A", "area": "0", "ls_seq": 1, "peers": {"B": 1}}
    expected = {"id": "A", "pv": 1, "area": "0", "instance": 100, "ls_seq": 1, "ls": state}
    assert router.on_control(1, "LSR", body("B"), 1.0) == [SendTo("B", "LSU", expected, "qdrouter")]


def test_an_answer_waits_for_a_path() -> None:
    router = with_neighbour("B")
    assert router.on_control(1, "LSR", body("C"), 1.0) == []
    effects = router.on_control(1, "LSU", lsu("B", 2, A=1, C=1), 1.1)
    assert sent(effects) == [("C", "LSU"), ("C", "LSR")]


def test_a_router_behind_a_neighbour() -> None:
    router = with_neighbour("B")
    effects = router.on_control(1, "LSU", lsu("B", 2, A=1, C=4), 1.0)
    told = [effect for effect in effects if isinstance(effect, NodeUp | SetNextHop | SetCost | TopologyChanged)]
    assert told == [NodeUp("C"), SetNextHop("C", "B"), SetCost("C", 5), told[-1]]
    assert isinstance(told[-1], TopologyChanged)
    assert sent(effects) == [("C", "LSR")]
    node = router.nodes["C"]
    assert (node.cost, node.next_hop, node.link_id, node.index) == (5, "B", None, 2)


def test_a_repeated_link_state_changes_nothing() -> None:
    router = with_neighbour("B")
    router.on_control(1, "LSU", lsu("B", 2, A=1, C=4), 1.0)
    assert router.on_control(1, "LSU", lsu("B", 2, A=1, C=4), 1.01) == []
    assert router.on_control(1, "LSU", lsu("B", 1, A=1), 1.02) == [], "an older one is no news"


def test_valid_origins_of_a_transit_router() -> None:
    router = with_neighbour("B", "C")
    assert router.nodes["B"].valid_origins == {"C"}
    effects = router.on_control(1, "LSU", lsu("B", 2, A=1, C=1), 1.0)
    router.on_control(2, "LSU", lsu("C", 2, A=1, B=1), 1.0)
    effects += run(router, 1.1, ("B", "C"))
    assert of(TopologyChanged, effects), "the view of the valid origins is to be read anew"
    assert router.nodes["B"].valid_origins == frozenset()


def test_the_other_end_of_a_one_sided_link_is_asked() -> None:
    router = with_neighbour("B", "C")
    router.on_control(1, "LSU", lsu("B", 2, A=1, C=1), 1.0)
    router.on_control(2, "LSU", lsu("C", 2, A=1, B=1), 1.0)
    run(router, 1.5, ("B", "C"))
    effects = router.on_control(1, "LSU", lsu("B", 3, A=1), 2.0)
    assert sent(effects) == [("C", "LSU")], "the news of B, and no question yet"
    assert ("C", "LSR") in sent(run(router, 2.0 + ONE_SIDED_S * 1.1, ("B", "C")))


def test_a_lost_router_goes_down_and_its_addresses_before_it() -> None:
    router = with_neighbour("B")
    router.on_control(1, "LSU", lsu("B", 2, A=1, C=4), 1.0)
    router.on_control(1, "MAU", body("C", mobile_seq=1, add=["M0x"], hints=[3], **{"del": []}), 1.1)
    effects = router.link_lost(1, 2.0)
    kinds = [(type(effect), effect.router_id) for effect in effects if isinstance(effect, MobileFlush | NodeDown)]
    assert kinds == [(MobileFlush, "C"), (NodeDown, "B"), (NodeDown, "C")]
    assert not router.nodes


def test_another_instance_is_a_restart() -> None:
    router = with_neighbour("B")
    router.on_control(1, "LSU", lsu("B", 2, A=1, C=4), 1.0)
    router.on_control(1, "LSU", lsu("C", 6, B=4), 1.01)
    router.on_control(1, "MAU", body("C", mobile_seq=5, exist=["M0x"], hints=[3]), 1.1)
    effects = router.on_control(1, "RA", ra("C", 1, instance=8), 1.2)
    assert of(MobileFlush, effects) == [MobileFlush("C")]
    assert sent(effects) == [("C", "LSR")]
    assert (router.nodes["C"].mobile_seq, router.nodes["C"].link_state) == (0, {})
    router.on_control(1, "LSU", lsu("C", 6, B=4), 1.21)
    assert router.nodes["C"].link_state == {}, "sent before the restart"
    router.on_control(1, "LSU", lsu("C", 1, instance=8, B=4), 1.22)
    assert list(router.nodes["C"].link_state) == ["B"]


def test_a_restart_within_one_second_is_believed_when_the_router_says_so_for_a_second() -> None:
    router = with_neighbour("B")
    router.on_control(1, "LSU", lsu("B", 2, A=1, C=4), 1.0)
    router.on_control(1, "LSU", lsu("C", 6, B=4), 1.01)
    router.on_control(1, "LSU", lsu("C", 1, D=1), 1.02)
    assert list(router.nodes["C"].link_state) == ["B"]
    assert ("C", "LSR") not in sent(router.on_control(1, "RA", ra("C", 1), 1.1)), "it could be late"
    assert ("C", "LSR") in sent(run(router, 1.1 + REMEMBERED_S))
    router.on_control(1, "LSU", lsu("C", 1, D=1), 1.4)
    assert list(router.nodes["C"].link_state) == ["B"]
    assert ("C", "LSR") in sent(run(router, 2.1)), "until an answer is believed"
    router.on_control(1, "LSU", lsu("C", 1, D=1), 2.15)
    assert list(router.nodes["C"].link_state) == ["D"]
    assert ("C", "LSR") not in sent(run(router, 3.5))


def test_former_messages_that_arrive_late_are_no_restart() -> None:
    """Over a longer path, an RA and an LSU can arrive after their successors."""
    router = with_neighbour("B")
    router.on_control(1, "LSU", lsu("B", 2, A=1, C=4), 1.0)
    router.on_control(1, "LSU", lsu("C", 6, B=4), 1.01)
    router.on_control(1, "RA", ra("C", 6), 1.02)
    router.on_control(1, "RA", ra("C", 5), 1.03)
    effects = router.on_control(1, "LSU", lsu("C", 5, B=4, D=1), 1.04)
    assert list(router.nodes["C"].link_state) == ["B"]
    assert not [effect for effect in of(SendTo, effects) if effect.opcode == "LSU"]
    router.on_control(1, "LSU", lsu("C", 6, B=4), 1.05)
    assert ("C", "LSR") not in sent(run(router, 3.5)), "its answer has confirmed what is known"


def test_an_old_link_state_expires() -> None:
    router = with_neighbour("B")
    router.on_control(1, "LSU", lsu("B", 2, A=1, C=1), 1.0)
    router.on_control(1, "LSU", lsu("C", 1, B=1, D=1), 1.0)
    router.tick(1.1)
    assert set(router.nodes) == {"B", "C", "D"}
    run(router, 40.0)
    router.on_control(1, "RA", ra("B", 2), 40.0)
    effects = run(router, 63.0)
    assert of(NodeDown, effects) == [NodeDown("D")]
    assert ("C", "LSR") in sent(effects), "it is still named by its neighbour, therefore asked"
    assert set(router.nodes) == {"B", "C"}


def test_a_router_out_of_reach_is_forgotten_at_last() -> None:
    router = with_neighbour("B")
    router.link_lost(1, 1.0)
    run(router, 100.0, ())
    assert router._topology.nodes == {}
    assert router._requests.wake == float("inf")


def test_advertisements_in_flux_and_in_rest() -> None:
    router = with_neighbour("B")  # The last change of paths was at 0.2.
    times = [at for at in range(1, 101) if of(SendAll, run(router, float(at)))]
    assert times[:2] == [5, 9]
    assert len(times) <= 5
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) == 30


def test_news_is_advertised_at_once_and_again_when_paths_have_settled() -> None:
    router = with_neighbour("B")
    effects = router.link_up(2, 1, 3.0)
    effects += router.on_control(2, "HELLO", hello("C"), 3.001)
    assert [effect.body["ls_seq"] for effect in of(SendAll, effects)] == [2]
    assert len(of(SendAll, run(router, 3.001 + RA_REPEAT_S * 1.01, ("B", "C")))) == 1


def test_a_storm_of_news_is_advertised_within_limits() -> None:
    router = with_neighbour("B")
    count = 0
    for turn in range(100):
        now = 3.0 + turn / 1000
        count += len(of(SendAll, router.link_up(2, 1, now)))
        count += len(of(SendAll, router.on_control(2, "HELLO", hello("C"), now)))
        count += len(of(SendAll, router.link_lost(2, now)))
    assert count <= 0.1 / RA_SPACING_S + 1
    assert [effect.body["ls_seq"] for effect in of(SendAll, run(router, 3.2))] == [201, 201]


def test_own_messages_that_come_back_are_ignored() -> None:
    router = with_neighbour("B")
    own = {"RA": ra("A", 9, instance=100), "LSU": lsu("A", 9, instance=100, X=1), "LSR": body("A")}
    for opcode, message in own.items():
        assert router.on_control(1, opcode, message, 1.0) == []


def test_the_deadline_is_never_passed_in_vain() -> None:
    """After a tick nothing is due any more: a loop that sleeps until the deadline does not spin."""
    router = with_neighbour("B")
    router.on_control(1, "LSU", lsu("B", 2, A=1, C=4), 1.0)
    router.on_control(1, "LSR", body("Z"), 1.0)
    router.mobile_added("M0x", 3, 1.0)
    for turn in range(2000):
        now = 1.0 + turn / 10
        router.tick(now)
        assert router.deadline() > now


def test_news_of_a_neighbour_is_passed_on_to_the_others_once_and_not_back() -> None:
    router = with_neighbour("B", "C", "D")
    effects = router.on_control(1, "LSU", lsu("B", 2, A=1, E=4), 1.0)
    relayed = [effect for effect in of(SendTo, effects) if effect.opcode == "LSU"]
    assert relayed == [SendTo(peer, "LSU", lsu("B", 2, A=1, E=4), "qdrouter") for peer in ("C", "D")]
    assert "LSU" not in [opcode for _, opcode in sent(router.on_control(2, "LSU", lsu("B", 2, A=1, E=4), 1.01))]


def test_news_goes_not_to_the_router_that_it_describes() -> None:
    router = with_neighbour("B", "C")
    assert "LSU" not in [opcode for _, opcode in sent(router.on_control(2, "LSU", lsu("B", 2, A=1), 1.0))]


def test_a_new_neighbour_is_told_the_link_states_of_all_routers() -> None:
    router = with_neighbour("B")
    router.on_control(1, "LSU", lsu("B", 2, A=1, E=4), 1.0)
    router.on_control(1, "LSU", lsu("E", 3, B=4), 1.01)
    run(router, 1.2)
    router.link_up(2, 1, 1.3)
    effects = router.on_control(2, "HELLO", hello("C"), 1.31) + run(router, 1.4, ("B", "C"))
    told = {
        effect.body["id"]: effect.body
        for effect in of(SendTo, effects)
        if (effect.router_id, effect.opcode) == ("C", "LSU")
    }
    assert told["B"] == lsu("B", 2, A=1, E=4)
    assert told["E"] == lsu("E", 3, B=4)
    assert told["A"]["ls"]["peers"] == {"B": 1, "C": 1}


def test_a_new_neighbour_is_told_link_states_of_routers_without_a_path_too() -> None:
    """A path to them follows from a later link state; theirs are then no news that would be passed on."""
    router = with_neighbour("B")
    router.on_control(1, "LSU", lsu("E", 3, F=4), 1.0)
    run(router, 1.2)
    assert "E" not in router.nodes
    router.link_up(2, 1, 1.3)
    effects = router.on_control(2, "HELLO", hello("C"), 1.31) + run(router, 1.4, ("B", "C"))
    told = [e.body for e in of(SendTo, effects) if (e.router_id, e.opcode, e.body["id"]) == ("C", "LSU", "E")]
    assert told == [lsu("E", 3, F=4)]


def test_what_waits_for_a_neighbour_that_is_gone_is_dropped() -> None:
    router = with_neighbour("B")
    router.link_up(2, 1, 1.0)
    router.on_control(2, "HELLO", hello("C"), 1.0)
    router.link_lost(2, 1.0)
    assert "C" not in {router_id for router_id, opcode in sent(run(router, 3.0)) if opcode == "LSU"}
