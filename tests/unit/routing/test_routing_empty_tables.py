"""A link state announces an empty table of mobile addresses, which saves the request for it."""

from __future__ import annotations

from typing import Any

import pytest

from waymesh_router.routing.effects import Effect, SendTo
from waymesh_router.routing.engine import RoutingEngine
from waymesh_router.routing.messages import NO_ADDRESSES, BadBody, parse
from waymesh_router.routing.settings import RoutingSettings

pytestmark = pytest.mark.engine_independent

NOW = 5.0
FIRST = 5000
"""The first mobile sequence of a router that starts at NOW."""


def body(router_id: str, **more: object) -> dict[str, Any]:
    return {"id": router_id, "pv": 1, "area": "0", **more}


def link_state(router_id: str, peers: dict[str, int], seq: int = 1, **more: object) -> dict[str, Any]:
    state = {"id": router_id, "area": "0", "ls_seq": seq, "peers": peers}
    return body(router_id, instance=7, ls_seq=seq, ls=state, **more)


def with_neighbours(*peers: str) -> RoutingEngine:
    router = RoutingEngine(RoutingSettings("A", instance=7), NOW)
    for link_id, peer in enumerate(peers):
        router.link_up(link_id, 1, NOW)
        router.on_control(link_id, "HELLO", body(peer, instance=7, seen=["A"]), NOW)
    return router


def sent(effects: list[Effect], opcode: str) -> list[SendTo]:
    return [effect for effect in effects if isinstance(effect, SendTo) and effect.opcode == opcode]


@pytest.mark.parametrize(
    ("empty_at", "advertised", "asks"),
    [(9, 9, False), (9, 10, True), (None, 9, True), (0, 9, True)],
    ids=["empty and unchanged", "addresses since", "does not say", "nothing told yet"],
)
def test_only_a_table_that_is_not_known_to_be_empty_is_asked_for(
    empty_at: int | None, advertised: int, asks: bool
) -> None:
    router = with_neighbours("B")
    more = {} if empty_at is None else {NO_ADDRESSES: empty_at}
    effects = router.on_control(0, "LSU", link_state("B", {"A": 1}, **more), NOW)
    effects += router.on_control(0, "RA", body("B", instance=7, ls_seq=1, mobile_seq=advertised), NOW)
    assert bool(sent(effects, "MAR")) == asks


def test_an_update_follows_a_table_that_was_said_to_be_empty() -> None:
    router = with_neighbours("B")
    router.on_control(0, "LSU", link_state("B", {"A": 1}, **{NO_ADDRESSES: 9}), NOW)
    update = body("B", mobile_seq=10, add=["M0b"], hints=[3]) | {"del": []}
    assert not sent(router.on_control(0, "MAU", update, NOW), "MAR")
    assert router.nodes["B"].mobile_seq == 10


def test_it_is_older_than_what_is_known_and_changes_nothing() -> None:
    router = with_neighbours("B")
    router.on_control(0, "LSU", link_state("B", {"A": 1}), NOW)
    router.on_control(0, "MAU", body("B", mobile_seq=10, exist=["M0b"], hints=[3]), NOW)
    router.on_control(0, "LSU", link_state("B", {"A": 1}, 2, **{NO_ADDRESSES: 9}), NOW)
    assert router.nodes["B"].mobile_seq == 10


@pytest.mark.parametrize(("empty_at", "told"), [(9, 9), (None, None)])
def test_it_is_passed_on_with_the_link_state(empty_at: int | None, told: int | None) -> None:
    router = with_neighbours("B", "C")
    more = {} if empty_at is None else {NO_ADDRESSES: empty_at}
    effects = router.on_control(0, "LSU", link_state("B", {"A": 1}, **more), NOW)
    effects += router.tick(NOW + 1.0)
    of_b = [effect.body for effect in sent(effects, "LSU") if effect.router_id == "C" and effect.body["id"] == "B"]
    assert [told_body.get(NO_ADDRESSES) for told_body in of_b] == [told]


def test_a_router_says_so_of_itself_until_it_has_an_address() -> None:
    router = with_neighbours("B")
    ask = body("B")
    (before,) = sent(router.on_control(0, "LSR", ask, NOW + 0.1), "LSU")
    assert before.body[NO_ADDRESSES] == FIRST
    router.mobile_added("M0a", 3, NOW + 0.2)
    router.tick(NOW + 0.2)
    (after,) = sent(router.on_control(0, "LSR", ask, NOW + 0.3), "LSU")
    assert NO_ADDRESSES not in after.body


@pytest.mark.parametrize("value", [-1, "9", None, True])
def test_a_sequence_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(BadBody):
        parse("LSU", {**link_state("B", {"A": 1}), NO_ADDRESSES: value})
