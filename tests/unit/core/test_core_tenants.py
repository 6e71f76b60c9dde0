"""Clients of a tenant use addresses of the tenant's space, and cannot leave it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import Container, neighbour
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.performatives import Attach, Detach, Terminus, Transfer
from waymesh_amqp.types import Symbol
from waymesh_router.core.link_kinds import BALANCED, NO_MANAGEMENT
from waymesh_router.core.link_routing.rewriting import DYNAMIC_ADDRESS
from waymesh_router.core.tenants import serves

REJECTED, RELEASED = 0x25, 0x26
FORMS_OUTSIDE = [
    "$management",
    "/$management",
    "_local/",
    "_local/$management",
    "amqp:/_local/$management",
    "amqp://other/_local/a/$management",
    "_local/$_management_internal",
    "_local/$displayname",
    "_local/qdhello",
    "_local/qdrouter.ma",
    "_local/_edge",
    "_topo/0/R/x",
    "amqp:/_topo/0/R/$management",
    "_topo/0/R/M0b/x",
    "_topo/0/all/temp.x",
    "_topo/all/all/x",
    "_topo/all/R/temp.x",
    "_topo/0/R/temp",
    "_topo/b/x",
    "_edge/b/x",
]
"""What a tenant may neither send to nor receive from."""
FORMS_INSIDE = {
    "x": "x",
    "/x": "x",
    "//x": "/x",
    "amqp:/x": "x",
    "amqp://other/x": "x",
    "amqp:b/x": "b/x",
    "b/x": "b/x",
    "/b/x": "b/x",
    "../b/x": "../b/x",
    "/../b/x": "../b/x",
    "amqp:/../b/x": "../b/x",
    "amqp:/amqp:/_local/x": "amqp:/_local/x",
    "//_topo/0/R/x": "/_topo/0/R/x",
    "_Local/x": "_Local/x",
    " b/x": " b/x",
    "x/$management": "x/$management",
}
"""What a tenant may write, and what follows the tenant's name in the mesh."""


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def ordinary(hub: Hub) -> Peer:
    return hub.peer().open().begin()


def tenant(hub: Hub, name: str = "a", **opened: Any) -> Peer:
    peer = hub.peer()
    peer.conn.multi_tenant, peer.conn.tenant, peer.conn.management = True, name, NO_MANAGEMENT
    return peer.open(**opened).begin()


def condition(answers: list[Any]) -> str:
    """Why an attach was refused; "" where it was not."""
    errors = [d.error for d in answers if isinstance(d, Detach) and d.error is not None]
    return errors[0].condition if errors else ""


def told(answers: list[Any]) -> str:
    """The address in the answer to an attach."""
    (answer,) = [a for a in answers if isinstance(a, Attach)]
    terminus = answer.target if answer.role else answer.source
    assert terminus is not None
    return str(terminus.address)


def arrived(peer: Peer) -> int:
    return len([f for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)])


def outcomes(answers: list[Any]) -> list[int]:
    return [state.descriptor for state in frames.told(answers)]


def route(hub: Hub, prefix: str, **attrs: Any) -> Container:
    core_of(hub).linkroutes.add({
        "identity": prefix, "direction": "both", "prefix": prefix, "connection": "broker", **attrs,
    })  # fmt: skip
    return Container(hub)


# ---- addresses
@pytest.mark.parametrize("text", ["_local/x", "/_local/x", "amqp:/_local/x", "amqp://other/_local/x"])
@pytest.mark.parametrize("receiver", [True, False])
def test_local_addresses_are_those_of_the_tenant(hub: Hub, receiver: bool, text: str) -> None:
    answers = tenant(hub).send((frames.attach_receiver if receiver else frames.attach_sender)(address=text))
    assert list(core_of(hub).addresses) == ["La/x"]
    assert told(answers) == "_local/x", "the client does not see the space"


@pytest.mark.parametrize("text", ["_local/b/x", "_local/../b/x", "_local/_topo/0/R/x", "_local/_local/x"])
def test_local_addresses_do_not_lead_out_of_the_space(hub: Hub, text: str) -> None:
    other, outside = tenant(hub, "b"), ordinary(hub)
    other.send(frames.attach_receiver(address="_local/x"), frames.credit(9))
    for handle, address in enumerate(["_local/b/x", "x", "_local/x"]):
        outside.send(frames.attach_receiver(f"l{handle}", handle, address=address), frames.credit(9, handle))
    sender = tenant(hub)
    sender.send(frames.attach_sender(address=None))
    sender.send(frames.transfer(0, encode_message(Message(to=text, body="x"))))
    assert (arrived(other), arrived(outside)) == (0, 0)


@pytest.mark.parametrize(("text", "rest"), FORMS_INSIDE.items())
@pytest.mark.parametrize("receiver", [True, False])
def test_links_join_the_address_of_the_tenant(hub: Hub, receiver: bool, text: str, rest: str) -> None:
    answers = tenant(hub).send((frames.attach_receiver if receiver else frames.attach_sender)(address=text))
    assert list(core_of(hub).addresses) == ["M0a/" + rest]
    assert told(answers) == rest, "the client does not see the space"


@pytest.mark.parametrize("text", FORMS_OUTSIDE)
@pytest.mark.parametrize("receiver", [True, False])
def test_links_to_addresses_of_routers_are_refused(hub: Hub, receiver: bool, text: str) -> None:
    before = set(core_of(hub).addresses)
    answers = tenant(hub).send((frames.attach_receiver if receiver else frames.attach_sender)(address=text))
    assert condition(answers) in ("amqp:not-allowed", "amqp:unauthorized-access")
    assert set(core_of(hub).addresses) == before


@pytest.mark.parametrize(("text", "rest"), FORMS_INSIDE.items())
def test_messages_of_anonymous_senders_stay_in_the_space(hub: Hub, text: str, rest: str) -> None:
    inside, outside = ordinary(hub), ordinary(hub)
    inside.send(frames.attach_receiver(address="/a/" + rest), frames.credit(9))
    outside.send(
        *(frames.attach_receiver(f"l{n}", n, address=key) for n, key in enumerate([rest, "b/x", "x", "_local/x"])),
        *(frames.credit(9, n) for n in range(4)),
    )
    sender = tenant(hub)
    sender.send(frames.attach_sender(address=None))
    for number in range(2):
        assert outcomes(sender.send(frames.transfer(number, encode_message(Message(to=text, body="x"))))) == []
    assert (arrived(inside), arrived(outside)) == (2, 0)


@pytest.mark.parametrize("text", FORMS_OUTSIDE)
def test_messages_to_addresses_of_routers_are_rejected(hub: Hub, text: str) -> None:
    consumer = ordinary(hub)
    if "$management" not in text:
        consumer.send(frames.attach_receiver(address=text), frames.credit(9))
    sender = tenant(hub)
    sender.send(frames.attach_sender(address=None))
    for number in range(2):
        answers = sender.send(frames.transfer(number, encode_message(Message(to=text, body="x"))))
        assert outcomes(answers) == [REJECTED]
    assert arrived(consumer) == 0


def test_annotations_of_a_tenant_do_not_name_the_address(hub: Hub) -> None:
    victim, own = ordinary(hub), ordinary(hub)
    victim.send(frames.attach_receiver(address="b/x"), frames.credit(9))
    own.send(frames.attach_receiver(address="a/x"), frames.credit(9))
    sender = tenant(hub)
    sender.send(frames.attach_sender(address=None))
    forged = {Symbol("x-opt-qd.to"): "b/x", Symbol("x-opt-qd.phase"): 1}
    sender.send(frames.transfer(0, encode_message(Message(to="x", body="x", message_annotations=forged))))
    assert (arrived(victim), arrived(own)) == (0, 1)


@pytest.mark.parametrize(
    "given", [{}, {Symbol("client"): "own"}, {Symbol("client"): "o" * 5000}], ids=["plain", "annotated", "long"]
)
def test_other_routers_read_the_address_of_the_space(hub: Hub, given: dict[Any, Any]) -> None:
    other = neighbour(hub, "B")
    sender = tenant(hub)
    sender.send(frames.attach_sender(address=None))
    for key in ("M0a/x", "M0a/y"):
        core_of(hub).remote_routers.add_consumers("B", key, BALANCED)
    long = "z" * 5000
    core_of(hub).remote_routers.add_consumers("B", f"M0a/{long}", BALANCED)
    for number, text in enumerate(["x", "/x", "x", "y", "x", long, "x", long, "y"]):
        message = Message(to=text, body="b", message_annotations=given)
        sender.send(frames.transfer(number, encode_message(message)))
        seen = [f for f in other.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]
        sent = decode_message(b"".join(f.payload for f in seen))
        assert sent.to == text, "the message itself stays as it is"
        assert sent.message_annotations is not None
        assert sent.message_annotations["x-opt-qd.to"] == f"a/{text.lstrip('/')}"
        assert {key: value for key, value in sent.message_annotations.items() if "qd" not in key} == given


def test_reply_addresses_are_common(hub: Hub) -> None:
    """They cannot be guessed. Two tenants that tell each other one can use it."""
    asking, answering = tenant(hub, "a"), tenant(hub, "b")
    source = Terminus("source", dynamic=True)
    made = told(asking.send(frames.attach_receiver(source=source), frames.credit(9)))
    assert made.startswith("amqp:/_topo/0/")
    answering.send(frames.attach_sender(address=None))
    answering.send(frames.transfer(0, encode_message(Message(to=made, body="x"))))
    assert arrived(asking) == 1
    assert condition(answering.send(frames.attach_receiver("r", 1, address=made))) == "amqp:not-allowed"


def test_a_dynamic_target_is_an_address_of_the_space(hub: Hub) -> None:
    peer = tenant(hub)
    made = told(peer.send(frames.attach_sender(target=Terminus("target", dynamic=True))))
    assert made.startswith("_temp.")
    assert list(core_of(hub).addresses) == [f"M0a/{made}"]
    peer.send(frames.attach_receiver("r", 1, address=made))
    assert list(core_of(hub).addresses) == [f"M0a/{made}"]


def test_address_entities_apply_to_addresses_with_the_vhost(hub: Hub) -> None:
    entity = {"pattern": None, "distribution": "balanced", "waypoint": True, "ingressPhase": None, "egressPhase": None}
    core_of(hub).address_table.add_pattern({**entity, "prefix": "a/queue"})
    for peer, key in ((tenant(hub), "M1a/queue.1"), (tenant(hub, "b"), "M0b/queue.1")):
        peer.send(frames.attach_receiver(address="queue.1"))
        assert key in core_of(hub).addresses


def test_without_a_name_there_are_no_links(hub: Hub) -> None:
    assert condition(tenant(hub, "").send(frames.attach_sender())) == "amqp:not-allowed"


# ---- link routes
def test_a_container_gets_the_address_with_the_vhost_and_the_client_without(hub: Hub) -> None:
    container = route(hub, "a/q")
    answers = tenant(hub).send(frames.attach_receiver(address="/q.1"))
    assert [link.address for link in container.links] == ["a/q.1"]
    assert told(answers) == "q.1"


def test_the_prefix_can_be_removed_for_the_container(hub: Hub) -> None:
    container = route(hub, "a/q", delExternalPrefix="a/")
    answers = tenant(hub).send(frames.attach_sender(address="q.1"))
    assert [link.address for link in container.links] == ["q.1"]
    assert told(answers) == "q.1"


def test_a_dynamic_source_names_a_link_route_of_the_space(hub: Hub) -> None:
    container = route(hub, "a/q")
    wanted = Terminus("source", dynamic=True, dynamic_node_properties={Symbol(DYNAMIC_ADDRESS): "q.1"})
    tenant(hub).send(frames.attach_receiver(source=wanted))
    (link,) = container.links
    source = link.attach.source
    assert source is not None
    assert source.dynamic_node_properties is not None
    assert source.dynamic_node_properties[DYNAMIC_ADDRESS] == "a/q.1"


@pytest.mark.parametrize("text", ["q", "b/q", "../b/q", "amqp:/b/q", "/b/q", "$coordinator/q"])
def test_link_routes_of_others_do_not_match(hub: Hub, text: str) -> None:
    containers = [route(hub, "q"), route(hub, "b/q")]
    tenant(hub).send(frames.attach_sender(address=text))
    assert [container.links for container in containers] == [[], []]


@pytest.mark.parametrize("prefix", ["a.b", "a.b/x"])
def test_a_vhost_with_a_dot_is_not_that_before_the_dot(hub: Hub, prefix: str) -> None:
    """Patterns take dots for slashes: `b/x` of the tenant `a` must not reach the containers of `a.b`."""
    container = route(hub, prefix)
    peer = tenant(hub, "a")
    peer.send(frames.attach_sender(address="b/x"), frames.attach_sender("anonymous", 1, address=None))
    answers = peer.send(frames.transfer(0, encode_message(Message(to="b/x", body="x")), handle=1))
    assert (container.links, outcomes(answers)) == ([], [RELEASED])
    ordinary(hub).send(frames.attach_sender(address="a/b/x"))
    tenant(hub, "a.b").send(frames.attach_sender(address="x"))
    assert [link.address for link in container.links] == ["a/b/x", "a.b/x"]


@pytest.mark.parametrize(
    ("key", "served"),
    [
        ("Ca.b", ["a.b"]),
        ("Ca.b/x", ["a.b"]),
        ("Ca", ["a"]),
        ("Ca/b", ["a"]),
        ("Ea/#", ["a"]),
        ("Ea/b/*", ["a"]),
        ("Ea.b/#", ["a.b"]),
        ("Ea/b", ["a"]),
        ("Ea.*/x", ["a.b"]),
        ("E#", ["a", "a.b"]),
        ("E*/b/x", ["a", "a.b"]),
        ("D", []),
    ],
)
def test_which_tenants_a_link_route_is_for(key: str, served: list[str]) -> None:
    assert [name for name in ("a", "a.b") if serves(name, key)] == served


def test_messages_of_anonymous_senders_go_by_link_routes_of_the_space(hub: Hub) -> None:
    container = route(hub, "a/q")
    peer = tenant(hub)
    peer.send(frames.attach_sender(address=None))
    peer.send(frames.transfer(0, encode_message(Message(to="q", body="x"))))
    assert [link.address for link in container.links] == ["a/q"]


def test_the_relay_of_another_client_is_not_used_past_the_space(hub: Hub) -> None:
    container = route(hub, "a.b")
    for peer, text in ((ordinary(hub), "a/b/x"), (tenant(hub, "a"), "b/x")):
        peer.send(frames.attach_sender(address=None))
        answers = peer.send(frames.transfer(0, encode_message(Message(to=text, body="x"))))
    assert (len(container.links), outcomes(answers)) == (1, [RELEASED])


@pytest.mark.parametrize("dynamic", [True, False])
def test_links_without_an_address_stay_at_the_router(hub: Hub, dynamic: bool) -> None:
    """A container could not know the tenant, and an anonymous terminus of it would reach every address."""
    core_of(hub).linkroutes.add({"identity": "1", "direction": "both", "pattern": "#", "connection": "broker"})
    container = Container(hub)
    peer = tenant(hub)
    peer.send(frames.attach_sender(address=None))
    peer.send(frames.attach_receiver("r", 1, source=Terminus("source", dynamic=dynamic)))
    peer.send(frames.attach_sender("empty", 2, address="amqp://host"))
    assert container.links == []


def test_link_names_tell_tenants_apart(hub: Hub) -> None:
    """A container finds a durable subscription by the name of the link."""
    containers = [route(hub, "a"), route(hub, "b")]
    for name in ("a", "b"):
        source = Terminus("source", address="topic", durable=2, expiry_policy="never")
        tenant(hub, name, container_id="client").send(frames.attach_receiver("news", source=source))
    names = {link.attach.name for container in containers for link in container.links}
    assert names == {"a/client.news", "b/client.news"}
