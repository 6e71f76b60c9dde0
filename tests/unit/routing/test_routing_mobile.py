"""MAU and MAR (inter-router.md, "Control messages"): announcing local addresses, learning those of others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waymesh_router.routing.effects import Effect, MobileAdd, MobileDel, SendAll, SendTo
from waymesh_router.routing.engine import RoutingEngine
from waymesh_router.routing.mobile import MAU_CHANGES, MAU_SPACING_S
from waymesh_router.routing.settings import RoutingSettings

pytestmark = pytest.mark.engine_independent


def body(router_id: str, **more: object) -> dict[str, Any]:
    return {"id": router_id, "pv": 1, "area": "0", **more}


def with_neighbour() -> RoutingEngine:
    """Router A with neighbour B, whose table up to sequence 1 is known: M0b."""
    router = RoutingEngine(RoutingSettings("A", instance=100), 0.0)
    router.link_up(1, 1, 0.0)
    router.on_control(1, "HELLO", body("B", instance=7, seen=["A"]), 0.1)
    state = {"id": "B", "area": "0", "ls_seq": 1, "peers": {"A": 1}}
    router.on_control(1, "LSU", body("B", instance=7, ls_seq=1, ls=state), 0.2)
    router.on_control(1, "MAU", body("B", mobile_seq=1, exist=["M0b"], hints=[3]), 0.2)
    router.tick(0.9)
    return router


def differential(seq: int, add: dict[str, int], *delete: str) -> dict[str, Any]:
    return body("B", mobile_seq=seq, hints=list(add.values()), add=list(add)) | {"del": list(delete)}


def updates(effects: list[Effect]) -> list[dict[str, Any]]:
    return [
        dict(effect.body)
        for effect in effects
        if isinstance(effect, SendAll) and (effect.opcode, effect.suffix) == ("MAU", "qdrouter.ma")
    ]


def tables(effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, MobileAdd | MobileDel)]


def sent(effects: list[Effect]) -> list[SendTo]:
    return [effect for effect in effects if isinstance(effect, SendTo)]


def test_changes_of_one_instant_are_told_at_once_in_one_update_and_before_the_advertisement() -> None:
    router = with_neighbour()
    assert router.mobile_added("M0x", 3, 1.0) + router.mobile_added("Cy", 4, 1.0) == []
    assert router.deadline() == 1.0
    effects = router.tick(1.0)
    assert updates(effects) == [body("A", mobile_seq=1, hints=[3, 4], add=["M0x", "Cy"]) | {"del": []}]
    assert [(effect.opcode, effect.body.get("mobile_seq")) for effect in effects if isinstance(effect, SendAll)] == [
        ("MAU", 1),
        ("RA", 1),
    ]


def test_removal_is_told_and_the_sequence_counts_up() -> None:
    router = with_neighbour()
    router.mobile_added("M0x", 3, 1.0)
    router.tick(1.0)
    router.mobile_removed("M0x", 2.0)
    assert updates(router.tick(2.0)) == [body("A", mobile_seq=2, hints=[], add=[]) | {"del": ["M0x"]}]


def told_until_quiet(router: RoutingEngine, now: float) -> list[dict[str, Any]]:
    """Updates of the ticks from now on until nothing is to be told."""
    told: list[dict[str, Any]] = []
    while found := updates(router.tick(now)):
        told += found
        now += MAU_SPACING_S
    return told


def test_many_changes_are_told_in_several_updates_one_after_the_other() -> None:
    router = with_neighbour()
    names = [f"M0{n}" for n in range(2 * MAU_CHANGES + 10)]
    for name in names:
        router.mobile_added(name, 3, 1.0)
    told = told_until_quiet(router, 1.0)
    assert [len(update["add"]) for update in told] == [MAU_CHANGES, MAU_CHANGES, 10]
    assert [update["mobile_seq"] for update in told] == [1, 2, 3]
    assert [name for update in told for name in update["add"]] == names
    for name in names:
        router.mobile_removed(name, 2.0)
    router.mobile_added("M0new", 3, 2.0)
    told = told_until_quiet(router, 2.0)
    assert [(len(update["del"]), len(update["add"])) for update in told] == [
        (MAU_CHANGES, 0), (MAU_CHANGES, 0), (10, 1),
    ]  # fmt: skip


def test_what_changes_back_between_two_parts_is_not_told() -> None:
    router = with_neighbour()
    for n in range(MAU_CHANGES + 1):
        router.mobile_added(f"M0{n}", 3, 1.0)
    router.tick(1.0)
    router.mobile_removed(f"M0{MAU_CHANGES}", 1.001)
    assert told_until_quiet(router, 1.1) == []


def test_what_comes_and_goes_between_two_updates_is_not_told() -> None:
    router = with_neighbour()
    router.mobile_added("M0x", 3, 1.0)
    router.mobile_removed("M0x", 1.0)
    assert updates(router.tick(1.0)) == []
    router.mobile_added("M0y", 3, 2.0)
    router.tick(2.0)
    router.mobile_removed("M0y", 3.0)
    router.mobile_added("M0y", 3, 3.0)
    assert updates(router.tick(3.0)) == []


def test_another_treatment_is_told_as_an_addition() -> None:
    router = with_neighbour()
    router.mobile_added("M0x", 3, 1.0)
    router.tick(1.0)
    router.mobile_added("M0x", 2, 2.0)
    assert updates(router.tick(2.0)) == [body("A", mobile_seq=2, hints=[2], add=["M0x"]) | {"del": []}]


def test_a_stream_of_changes_is_told_in_batches() -> None:
    router = with_neighbour()
    count = 0
    for turn in range(1000):
        now = 1.0 + turn / 100_000
        router.mobile_added(f"M0x{turn}", 3, now)
        if router.deadline() <= now:
            count += len(updates(router.tick(now)))
    assert 2 <= count <= 0.01 / MAU_SPACING_S + 1


@pytest.mark.parametrize("key", ["Lqdhello", "Ta", "RB", "A0", "M", ""])
def test_other_classes_do_not_travel(key: str) -> None:
    router = with_neighbour()
    router.mobile_added(key, 3, 1.0)
    assert updates(router.tick(1.0)) == []


def test_a_question_is_answered_with_the_whole_table() -> None:
    router = with_neighbour()
    router.mobile_added("M0x", 3, 1.0)
    router.mobile_added("M0y", 0, 1.0)
    router.tick(1.0)
    router.mobile_added("M0z", 2, 1.001)  # Not told yet: it belongs to sequence 2.
    whole = body("A", mobile_seq=1, exist=["M0x", "M0y"], hints=[3, 0])
    assert router.on_control(1, "MAR", body("B", have_seq=0), 1.001) == [SendTo("B", "MAU", whole, "qdrouter.ma")]
    assert router.on_control(1, "MAR", body("B", have_seq=1), 1.001) == []


def test_who_has_heard_nothing_is_told_that_there_is_nothing() -> None:
    effects = with_neighbour().on_control(1, "MAR", body("B", have_seq=0), 1.0)
    assert sent(effects) == [SendTo("B", "MAU", body("A", mobile_seq=0, exist=[], hints=[]), "qdrouter.ma")]


def test_the_next_difference_is_taken() -> None:
    router = with_neighbour()
    effects = router.on_control(1, "MAU", differential(2, {"M0c": 2, "M0d": 0}, "M0b"), 1.0)
    assert tables(effects) == [MobileDel("B", "M0b"), MobileAdd("B", "M0c", 2), MobileAdd("B", "M0d", 0)]
    assert router.nodes["B"].mobile_seq == 2


def test_a_repeated_difference_changes_nothing() -> None:
    router = with_neighbour()
    router.on_control(1, "MAU", differential(2, {"M0c": 2}), 1.0)
    assert router.on_control(1, "MAU", differential(2, {"M0c": 2}), 1.01) == []


def test_a_gap_is_not_taken_but_asked_about() -> None:
    router = with_neighbour()
    effects = router.on_control(1, "MAU", differential(3, {"M0c": 2}), 1.0)
    assert tables(effects) == []
    assert sent(effects) == [SendTo("B", "MAR", body("A", have_seq=1), "qdrouter.ma")]
    assert sent(router.on_control(1, "MAU", differential(4, {"M0d": 2}), 1.001)) == [], "asked already"
    whole = body("B", mobile_seq=4, exist=["M0c", "M0d"], hints=[2, 2])
    effects = router.on_control(1, "MAU", whole, 1.002)
    assert tables(effects) == [MobileDel("B", "M0b"), MobileAdd("B", "M0c", 2), MobileAdd("B", "M0d", 2)]
    assert sent(effects) == []


def test_a_whole_table_that_is_behind_again_is_asked_about_at_once() -> None:
    router = with_neighbour()
    router.on_control(1, "MAU", differential(3, {}), 1.0)
    router.on_control(1, "MAU", differential(4, {}), 1.001)
    effects = router.on_control(1, "MAU", body("B", mobile_seq=3, exist=[], hints=[]), 1.002)
    assert sent(effects) == [SendTo("B", "MAR", body("A", have_seq=3), "qdrouter.ma")]


def test_an_advertisement_shows_a_gap() -> None:
    router = with_neighbour()
    effects = router.on_control(1, "RA", body("B", instance=7, ls_seq=1, mobile_seq=1), 1.0)
    assert sent(effects) == []
    effects = router.on_control(1, "RA", body("B", instance=7, ls_seq=1, mobile_seq=2), 1.0)
    assert sent(effects) == [SendTo("B", "MAR", body("A", have_seq=1), "qdrouter.ma")]


def test_only_differences_to_a_whole_table_are_emitted() -> None:
    router = with_neighbour()
    whole = body("B", mobile_seq=9, exist=["M0b", "M0c"], hints=[3, 3])
    assert tables(router.on_control(1, "MAU", whole, 1.0)) == [MobileAdd("B", "M0c", 3)]


def test_a_router_in_reach_again_is_remembered_and_asked() -> None:
    router = with_neighbour()
    router.link_lost(1, 1.0)
    router.link_up(2, 1, 2.0)
    effects = router.on_control(2, "HELLO", body("B", instance=7, seen=["A"]), 2.1)
    assert tables(effects) == [MobileAdd("B", "M0b", 3)]
    asked = [message.opcode for message in sent(effects)]
    while router.deadline() < 3.0:
        asked += [message.opcode for message in sent(router.tick(router.deadline()))]
    assert "MAR" in asked


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.integers(0, 5)), max_size=4), max_size=12))
def test_a_peer_that_takes_the_updates_has_the_local_table(batches: list[list[tuple[str, int | None]]]) -> None:
    teller, listener = RoutingEngine(RoutingSettings("B", instance=7), 0.001), with_neighbour()  # both at sequence 1
    listener.on_control(1, "MAU", body("B", mobile_seq=1, exist=[], hints=[]), 0.95)
    local: dict[str, int] = {}
    heard: dict[str, int] = {}
    for turn, batch in enumerate(batches):
        now = 1.0 + turn / 100
        for name, treatment in batch:
            if treatment is None:
                local.pop(f"M0{name}", None)
                teller.mobile_removed(f"M0{name}", now)
            else:
                local[f"M0{name}"] = treatment
                teller.mobile_added(f"M0{name}", treatment, now)
        for update in updates(teller.tick(now)):
            for effect in tables(listener.on_control(1, "MAU", update, now)):
                if isinstance(effect, MobileAdd):
                    heard[effect.key] = effect.treatment
                elif isinstance(effect, MobileDel):
                    del heard[effect.key]
        assert heard == local
