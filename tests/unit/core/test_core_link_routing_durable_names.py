"""With `durableNames: user`, a container never takes the durable link of one user for that of another."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import Container, neighbour
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.unit.core.edge_peer import edge_connection
from waymesh_amqp.performatives import Terminus
from waymesh_amqp.types import Symbol
from waymesh_router.core.link_kinds import LINK_BALANCED
from waymesh_router.core.link_routing.rewriting import CLIENT_LINK

DURABLE: dict[str, Any] = {"durable": 2, "expiry_policy": Symbol("never")}
MANY = [Symbol("shared")]
ALL = [Symbol("shared"), Symbol("global")]


def with_container(names: str, **over: Any) -> tuple[Hub, Container]:
    hub = core_hub(**over)
    core_of(hub).linkroutes.add({"identity": "1", "direction": "both", "prefix": "b2", "connection": "broker"})
    container = Container(hub)
    container.conn.durable_names = names
    container.conn.settings.container_id = "R"  # no other router has the same
    return hub, container


def client(hub: Hub, user: str | None, container_id: str = "c1", **over: Any) -> Peer:
    peer = hub.peer()
    peer.conn.user = user
    return peer.open(container_id=container_id, **over).begin()


def subscribe(peer: Peer, name: str = "sub", handle: int = 0, **over: Any) -> list[Any]:
    source = Terminus("source", address="b2.topic", **{**DURABLE, **over.pop("terminus", {})})
    return peer.send(frames.attach_receiver(name, handle, source=source, **over))


def names_at(container: Container) -> list[str]:
    return [link.attach.name for link in container.links]


def warnings(hub: Hub) -> list[str]:
    log: Any = core_of(hub).log
    return [text for _, level, text in log.__closure__[0].cell_contents if level == "warning"]


# ---- at the router with the container
def test_another_user_does_not_get_the_subscription_of_a_container_id() -> None:
    hub, container = with_container("user")
    subscribe(client(hub, "alice"))
    subscribe(client(hub, "mallory"))
    assert names_at(container) == ["alice:c1.sub", "mallory:c1.sub"]
    assert len(container.active()) == 2


def test_the_same_user_returns_to_it() -> None:
    hub, container = with_container("user")
    subscribe(client(hub, "alice"))
    subscribe(client(hub, "alice"))
    assert names_at(container) == ["alice:c1.sub"] * 2
    assert len(container.active()) == 1


@pytest.mark.parametrize("names", ["", "container"])
def test_with_container_names_are_as_before(names: str) -> None:
    hub, container = with_container(names)
    subscribe(client(hub, "alice"))
    subscribe(client(hub, "mallory"))
    assert names_at(container) == ["c1.sub"] * 2
    assert len(container.active()) == 1


@pytest.mark.parametrize(
    ("user", "container_id", "name", "terminus", "expected"),
    [
        (None, "c1", "sub", {}, "c1.sub"),
        ("anonymous", "c1", "sub", {}, "c1.sub"),
        (None, "alice:c1", "sub", {}, ":alice:c1.sub"),
        ("a:b|c/d%", "c1", "sub", {}, "a%3Ab%7Cc%2Fd%25:c1.sub"),
        ("alice", "c1", "sub", {"capabilities": MANY}, "c1.sub"),
        ("alice", "c1", "sub", {"capabilities": ALL}, "sub"),
        ("alice", "c1", "bob:c1.sub", {"capabilities": ALL}, ":bob:c1.sub"),
        ("alice", "c1", "sub", {"durable": 0, "expiry_policy": None}, "c1.sub"),
        ("mallory", "alice:c1", "sub", {"durable": 0, "expiry_policy": None}, ":alice:c1.sub"),
        ("alice", "c1", "sub", {"durable": 0, "expiry_policy": None, "timeout": 60}, "alice:c1.sub"),
        ("alice", "c1", "sub", {"durable": 1, "expiry_policy": None}, "alice:c1.sub"),
    ],
)
def test_no_name_of_others_begins_with_a_user(
    user: str | None, container_id: str, name: str, terminus: dict[str, Any], expected: str
) -> None:
    hub, container = with_container("user")
    subscribe(client(hub, user, container_id), name, terminus=terminus)
    assert names_at(container) == [expected]


def test_the_lookup_of_a_subscription_has_the_user_too() -> None:
    hub, container = with_container("user")
    core_of(hub).linkroutes.add({"identity": "2", "direction": "both", "pattern": "#", "connection": "broker"})
    client(hub, "alice").send(frames.attach_receiver("sub", source=None))
    assert names_at(container) == ["alice:c1.sub"]


def test_a_durable_target_has_the_user_too() -> None:
    hub, container = with_container("user")
    target = Terminus("target", address="b2.q", durable=2)
    client(hub, "alice").send(frames.attach_sender("out", target=target))
    assert names_at(container) == ["alice:c1.out"]


def test_the_users_of_two_tenants_are_different() -> None:
    hub, container = with_container("user")
    core_of(hub).linkroutes.add({"identity": "2", "direction": "both", "prefix": "t1", "connection": "broker"})
    peer = client(hub, "alice")
    peer.conn.multi_tenant, peer.conn.tenant = True, "t1"
    subscribe(peer)
    assert names_at(container) == ["alice:t1/c1.sub"]


def test_one_warning_for_each_connector_without_the_setting() -> None:
    hub, _ = with_container("")
    subscribe(client(hub, None), "first")
    subscribe(client(hub, "alice"), "second", terminus={"capabilities": MANY})
    subscribe(client(hub, "alice"), "third", terminus={"durable": 0, "expiry_policy": None})
    assert not warnings(hub)
    subscribe(client(hub, "alice"))
    subscribe(client(hub, "bob"))
    (text,) = warnings(hub)
    assert "'broker' has no durableNames" in text


@pytest.mark.parametrize("names", ["user", "container"])
def test_no_warning_with_the_setting(names: str) -> None:
    hub, _ = with_container(names)
    subscribe(client(hub, "alice"))
    assert not warnings(hub)


# ---- between routers
def said(seen: list[Any]) -> list[tuple[str, Any]]:
    return [(one.name, (one.properties or {}).get(CLIENT_LINK)) for one in seen if type(one).__name__ == "Attach"]


def reasons(seen: list[Any]) -> list[str]:
    return [one.error.condition for one in seen if type(one).__name__ == "Detach"]


def told(peer: Peer) -> list[tuple[str, Any]]:
    """Name and property of the links that the router attached."""
    return said(peer.take())


def first_router() -> tuple[Hub, Peer]:
    hub = core_hub()
    core_of(hub).linkroutes.add({"identity": "1", "direction": "both", "prefix": "b2", "connection": "broker"})
    peer = neighbour(hub, "B")
    core_of(hub).remote_routers.add_consumers("B", "Db2", LINK_BALANCED)
    return hub, peer


def test_the_first_router_says_who_the_user_is() -> None:
    hub, other = first_router()
    subscribe(client(hub, "alice"))
    assert told(other) == [("c1.sub", ["alice", "c1.sub"])]


def test_two_users_of_one_container_id_do_not_end_each_other_s_links_between_routers() -> None:
    hub, other = first_router()
    subscribe(client(hub, "alice"))
    subscribe(client(hub, "mallory"))
    seen = other.take()
    assert said(seen) == [("c1.sub", ["alice", "c1.sub"]), ("c1.sub#2", ["mallory", "c1.sub"])]
    assert not reasons(seen)


@pytest.mark.parametrize("terminus", [{}, {"durable": 0, "expiry_policy": None}])
def test_a_client_cannot_say_who_it_is(terminus: dict[str, Any]) -> None:
    hub, other = first_router()
    subscribe(client(hub, "mallory"), terminus=terminus, properties={CLIENT_LINK: ["alice", "c1.sub"], "mine": 1})
    assert told(other) == [("c1.sub", None if terminus else ["mallory", "c1.sub"])]


def test_a_client_cannot_say_it_at_the_last_router_either() -> None:
    hub, container = with_container("user")
    subscribe(client(hub, "mallory"), properties={CLIENT_LINK: ["alice", "c1.sub"]})
    assert names_at(container) == ["mallory:c1.sub"]
    assert container.links[0].attach.properties is None


def test_the_last_router_uses_what_the_first_one_says() -> None:
    hub, container = with_container("user")
    other = neighbour(hub, "A")
    other.send(frames.begin(1))
    subscribe(other, "c1.sub#2", 0, channel=1, properties={CLIENT_LINK: ["alice", "c1.sub"]})
    subscribe(other, "c1.sub", 1, channel=1, properties={CLIENT_LINK: ["", "c1.sub"]})
    assert names_at(container) == ["alice:c1.sub", "c1.sub"]
    assert container.links[0].attach.properties is None, "it is between routers"


def test_with_container_the_last_router_drops_what_distinguished_the_users() -> None:
    hub, container = with_container("container")
    other = neighbour(hub, "A")
    other.send(frames.begin(1))
    subscribe(other, "c1.sub#2", 0, channel=1, properties={CLIENT_LINK: ["alice", "c1.sub"]})
    assert names_at(container) == ["c1.sub"]


@pytest.mark.parametrize("said", [None, ["alice"], ["alice:", "c1.sub"], ["alice", 1], "alice"])
def test_without_a_known_user_the_link_is_refused(said: Any) -> None:
    hub, container = with_container("user")
    other = neighbour(hub, "A")
    other.send(frames.begin(1))
    properties = {} if said is None else {"properties": {CLIENT_LINK: said}}
    answers = subscribe(other, "c1.sub", 0, channel=1, **properties)
    assert reasons(answers) == ["amqp:not-allowed"]
    assert not container.links
    subscribe(other, "c1.other", 1, channel=1, terminus={"durable": 0, "expiry_policy": None})
    subscribe(other, "c1.many", 2, channel=1, terminus={"capabilities": MANY})
    assert names_at(container) == ["c1.other", "c1.many"]


# ---- edge routers
def test_an_edge_router_speaks_only_for_its_own_clients() -> None:
    hub, container = with_container("user")
    edge = edge_connection(hub, "E", user="shop")
    subscribe(edge, "c1.sub", 0, properties={CLIENT_LINK: ["alice", "c1.sub"]})
    subscribe(edge, "c2.sub", 1, properties={CLIENT_LINK: ["", "c2.sub"]})
    assert names_at(container) == ["shop/alice:E.c1.sub", "shop/:E.c2.sub"]
    answers = subscribe(edge, "c3.sub", 2)
    assert reasons(answers) == ["amqp:not-allowed"]


def test_an_edge_router_is_told_who_the_user_is() -> None:
    hub = core_hub()
    edge = edge_connection(hub, "E", user="shop")
    core_of(hub).linkroutes.add({"identity": "1", "direction": "both", "pattern": "b2.#"}, edge.conn)
    subscribe(client(hub, "alice"))
    assert told(edge) == [("c1.sub", ["alice", "c1.sub"])]
