"""Attaches of routed links: the routing address, and the attach for the next hop."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from waymesh_amqp.performatives import Attach, Terminus, decode_performative, encode_frame
from waymesh_amqp.types import Symbol
from waymesh_router.core.link_routing import rewriting


def source(address: Any = None, **more: Any) -> Attach:
    return Attach(name="l", handle=0, role=True, source=Terminus(kind="source", address=address, **more))


def target(address: Any = None, kind: Any = "target", **more: Any) -> Attach:
    return Attach(name="l", handle=0, role=False, target=Terminus(kind=kind, address=address, **more))


def received(attach: Attach) -> Attach:
    """The attach as it arrives, with its bytes."""
    body = encode_frame(0, attach)[8:]
    found, _ = decode_performative(body, 0, len(body))
    assert isinstance(found, Attach)
    return found


@pytest.mark.parametrize(
    ("attach", "address"),
    [
        (source("b/q"), "b/q"),
        (source("amqp://host/b/q"), "b/q"),
        (target("b/q"), "b/q"),
        (source(), ""),
        (target(), ""),
        (Attach(name="l", handle=0, role=True), ""),
        (Attach(name="l", handle=0, role=False), None),
        (target(kind="coordinator"), rewriting.COORDINATOR),
        (target(kind="other"), ""),
        (source(dynamic=True), ""),
        (source(dynamic=True, dynamic_node_properties={Symbol(rewriting.DYNAMIC_ADDRESS): "b/t"}), "b/t"),
        (source(Symbol("q")), "q"),
        (source(7), None),
        (target("$management"), None),
        (target("_local/x"), None),
        (source("_topo/0/A/temp.1"), None),
    ],
)
def test_the_address_by_which_an_attach_is_routed(attach: Attach, address: str | None) -> None:
    assert rewriting.route_address(attach) == address


@pytest.mark.parametrize(
    ("terminus", "kept"),
    [
        ({}, False),
        ({"timeout": 10}, True),
        ({"expiry_policy": Symbol("never")}, True),
        ({"expiry_policy": Symbol("connection-close")}, True),
        ({"expiry_policy": Symbol("session-end")}, False),
    ],
)
def test_a_terminus_that_is_to_outlive_its_connection(terminus: dict[str, Any], kept: bool) -> None:
    assert rewriting.outlives_connection(source("q", **terminus)) == kept
    assert rewriting.outlives_connection(target("q", **terminus)) == kept


@pytest.mark.parametrize(
    ("capability", "temporary"), [("temporary-queue", True), ("temporary-topic", True), ("queue", False)]
)
def test_a_node_that_a_container_made(capability: str, temporary: bool) -> None:
    assert rewriting.is_temporary(source("q", capabilities=[Symbol(capability)])) == temporary


@pytest.mark.parametrize(
    ("adds", "removes", "upstream"),
    [("", "", "b/q"), ("x/", "", "x/b/q"), ("", "b/", "q"), ("x/", "b/", "x/q")],
)
def test_prefixes_are_added_and_removed_on_the_way_and_restored_in_the_answer(
    adds: str, removes: str, upstream: str
) -> None:
    entity: Any = SimpleNamespace(adds=adds, removes=removes)
    onward = rewriting.upstream_attach(received(source("b/q")), "name", entity, None)
    assert onward.name == "name"
    assert onward.source is not None
    assert onward.source.address == upstream
    answer = Attach(name="name", handle=0, role=False, source=Terminus(kind="source", address=upstream))
    back = rewriting.backward_attach(received(answer), "l", entity)
    assert back.source is not None
    assert back.source.address == "b/q"


def test_an_address_that_is_the_prefix_alone_does_not_become_anonymous() -> None:
    entity: Any = SimpleNamespace(adds="", removes="b/q")
    onward = rewriting.upstream_attach(received(source("b/q")), "name", entity, None)
    assert onward.source is not None
    assert onward.source.address == "b/q"


@pytest.mark.parametrize("given", [None, {Symbol("mine"): 1}, {Symbol(f"{rewriting.ROUTE_ADDRESS}.of-mine"): 1}])
def test_an_attach_without_an_address_tells_the_next_router_how_it_was_routed(given: Any) -> None:
    attach = source()
    attach.properties = given
    first = received(rewriting.upstream_attach(received(attach), "l", None, "b/q"))
    assert rewriting.added_routing_address(first) == "b/q"
    last = received(rewriting.upstream_attach(first, "l", None, None))
    assert rewriting.added_routing_address(last) is None
    assert last.properties == given


def test_the_address_of_a_node_that_was_made() -> None:
    assert rewriting.made_address(Attach(name="l", handle=0, role=False, source=Terminus("source", "/t1"))) == "t1"
    assert rewriting.made_address(Attach(name="l", handle=0, role=False)) == ""
