"""The no-local filter: found in an attach, withheld from the container, applied by annotations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.performatives import Attach, Terminus
from waymesh_amqp.types import Described, Symbol, ULong
from waymesh_router.core.link_kinds import ROUTED
from waymesh_router.core.link_routing import no_local

FILTER = Described(Symbol("apache.org:no-local-filter:list"), [])
BY_NUMBER = Described(ULong(0x0000_468C_0000_0003), [])
OTHER = Described(Symbol("apache.org:selector-filter:string"), "a = 1")


def receiver(filters: dict[str, Any] | None) -> Attach:
    named = None if filters is None else {Symbol(name): value for name, value in filters.items()}
    return Attach(name="l", handle=0, role=True, source=Terminus(kind="source", address="t", filter=named))


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (None, []),
        ({}, []),
        ({"sel": OTHER}, []),
        ({"no-local": FILTER}, ["no-local"]),
        ({"nl": BY_NUMBER, "sel": OTHER}, ["nl"]),
        ({"no-local": "not described"}, []),
    ],
)
def test_filters_are_found_by_their_descriptor(filters: dict[str, Any] | None, found: list[str]) -> None:
    assert list(no_local.requested_filters(receiver(filters))) == found


def test_a_sender_has_no_filter() -> None:
    attach = Attach(name="l", handle=0, role=False, target=Terminus(kind="target", address="t"))
    assert no_local.requested_filters(attach) == {}


@pytest.mark.parametrize(("others", "left"), [({}, None), ({"sel": OTHER}, {"sel": OTHER})])
def test_the_container_does_not_see_it_and_the_client_sees_it_in_effect(others: dict[str, Any], left: Any) -> None:
    attach = receiver({"no-local": FILTER, **others})
    taken = no_local.requested_filters(attach)
    upstream = no_local.without_filters(attach, taken)
    assert upstream.source is not None
    assert upstream.source.filter == left
    no_local.confirm_filters(upstream, taken)
    assert upstream.source.filter == {**(left or {}), "no-local": FILTER}


def test_the_links_of_a_client_are_walked_over_once() -> None:
    """Those that come later are marked when they are forwarded."""
    visits = 0

    class Sessions(dict[int, Any]):
        def values(self) -> Any:
            nonlocal visits
            visits += 1
            return super().values()

    early, late, last = (SimpleNamespace(kind=ROUTED, is_sender=False, client=None) for _ in range(3))
    conn: Any = SimpleNamespace(remote=SimpleNamespace(container_id="c"), no_local=False)
    conn.sessions = Sessions({0: SimpleNamespace(links=[None, early])})
    for _ in range(3):
        subscription: Any = SimpleNamespace(kind=ROUTED, is_sender=True, client=None)
        no_local.link_forwarded(conn, subscription, SimpleNamespace(taken=None), {"no-local": FILTER})  # type: ignore[arg-type]
        assert subscription.client == "c"
    for link in (late, last):
        no_local.link_forwarded(conn, link, SimpleNamespace(taken=None), {})  # type: ignore[arg-type]
    assert [link.client for link in (early, late, last)] == ["c"] * 3
    assert visits == 1


BODY = b"\x00\x53\x77\x40"


@pytest.mark.parametrize(
    "message",
    [
        BODY,
        encode_message(Message(durable=True, to="t", body="x")),
        encode_message(Message(durable=True, message_annotations={Symbol("mine"): 1}, body="x")),
    ],
    ids=["body alone", "header", "annotations"],
)
def test_a_message_bears_its_client_and_is_else_the_same(message: bytes) -> None:
    marked = no_local.marked(message, False, "client")
    assert no_local.is_from(marked, "client")
    assert not no_local.is_from(marked, "other")
    assert not no_local.is_from(message, "client")
    before, after = decode_message(message), decode_message(marked)
    assert after.message_annotations == {**(before.message_annotations or {}), no_local.CLIENT: "client"}
    assert (after.to, after.durable, after.body) == (before.to, before.durable, before.body)


def test_annotations_that_go_on_in_the_next_frame_are_left_alone() -> None:
    cut = encode_message(Message(message_annotations={Symbol("mine"): "x" * 50}, body="x"))[:20]
    assert no_local.marked(cut, True, "client") == cut
