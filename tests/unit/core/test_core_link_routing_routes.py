"""Link route entities: their keys, their state, and what the mesh and telemetry are told of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.kit.answering import Container
from tests.kit.pump import Hub, core_hub, core_of
from waymesh_amqp.types import Symbol
from waymesh_router.core.control_plane_hooks import ControlPlaneHooks
from waymesh_router.core.link_kinds import LINK_BALANCED
from waymesh_router.core.link_routing.offers import ContainerCapabilities
from waymesh_router.core.link_routing.routes import LinkRoute, LinkRoutes
from waymesh_router.core.portions import COST_A_TURN
from waymesh_router.core.telemetry_hooks import TelemetryHooks


class ControlPlane(ControlPlaneHooks):
    """Keeps what the mesh would know. `told`: what other routers offer, by router and key."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.offers: dict[str, Any] = {}
        self.told: dict[tuple[str, str], Mapping[str, object]] = {}

    def local_added(self, key: str, treatment: int) -> None:
        self.known[key] = treatment

    def local_removed(self, key: str) -> None:
        del self.known[key]

    def offered(self, key: str, offer: Mapping[str, object] | None) -> None:
        self.offers[key] = offer

    def offer_of(self, router_id: str, key: str) -> Mapping[str, object] | None:
        return self.told.get((router_id, key))


class Telemetry(TelemetryHooks):
    def __init__(self) -> None:
        self.states: list[tuple[str | None, str | None]] = []

    def linkroute(self, route: LinkRoute, before: str | None, after: str | None) -> None:
        self.states.append((before, after))


@pytest.fixture
def hub() -> Hub:
    hub = core_hub()
    core_of(hub).context.control_plane = ControlPlane()
    return hub


def routes_of(hub: Hub) -> LinkRoutes:
    routes = core_of(hub).linkroutes
    assert isinstance(routes, LinkRoutes)
    return routes


def mesh(hub: Hub) -> ControlPlane:
    control_plane = core_of(hub).context.control_plane
    assert isinstance(control_plane, ControlPlane)
    return control_plane


def attrs(identity: str = "1", **over: Any) -> dict[str, Any]:
    return {"identity": identity, "direction": "in", "prefix": "b2", "connection": "broker", **over}


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ({"direction": "in"}, ["Cb2"]),
        ({"direction": "out"}, ["Db2"]),
        ({"direction": "both"}, ["Cb2", "Db2"]),
        ({"direction": "both", "prefix": None, "pattern": "a/*/b"}, ["Ea/*/b", "Fa/*/b"]),
    ],
)
def test_keys_of_an_entity(given: dict[str, Any], keys: list[str]) -> None:
    assert LinkRoute(attrs(**given)).keys == keys


def test_prefixes_for_the_container_are_optional() -> None:
    plain, rewriting = LinkRoute(attrs()), LinkRoute(attrs(addExternalPrefix="a.", delExternalPrefix="b."))
    assert (plain.adds, plain.removes) == ("", "")
    assert (rewriting.adds, rewriting.removes) == ("a.", "b.")


@pytest.mark.parametrize("pattern", ["/", "..", "./"])
def test_a_pattern_without_words_is_refused(hub: Hub, pattern: str) -> None:
    with pytest.raises(ValueError, match="has no words"):
        routes_of(hub).add(attrs(prefix=None, pattern=pattern))
    assert (len(routes_of(hub)), core_of(hub).addresses) == (0, {})


def test_the_mesh_knows_a_route_as_long_as_its_container_is_there(hub: Hub) -> None:
    routes = routes_of(hub)
    routes.add(attrs(direction="both"))
    assert (mesh(hub).known, routes.advertised()) == ({}, [])
    one, other = Container(hub), Container(hub)
    assert mesh(hub).known == {"Cb2": LINK_BALANCED, "Db2": LINK_BALANCED}
    one.close()
    assert set(routes.advertised()) == {"Cb2", "Db2"}
    other.close()
    assert mesh(hub).known == {}


def test_routes_of_one_prefix_share_an_address(hub: Hub) -> None:
    routes = routes_of(hub)
    routes.add(attrs("1"))
    routes.add(attrs("2", connection="else"))
    Container(hub)
    Container(hub, "else")
    assert routes.container_count("Cb2") == 2
    routes.remove("1")
    assert list(mesh(hub).known) == ["Cb2"]
    assert [entity.attrs["identity"] for entity, _ in routes.serving("Cb2")] == ["2"]
    routes.remove("2")
    assert (mesh(hub).known, core_of(hub).addresses, len(routes)) == ({}, {}, 0)


def test_a_route_is_looked_up_even_without_its_container(hub: Hub) -> None:
    routes_of(hub).add(attrs())
    table = core_of(hub).address_table
    table.drop_if_unused(table.by_key["Cb2"])
    index = table.link_routes
    assert index.match("b2.q", False) == ["Cb2"]
    routes_of(hub).remove("1")
    assert index.match("b2.q", False) is None


def test_status_and_telemetry(hub: Hub) -> None:
    core_of(hub).context.telemetry = telemetry = Telemetry()
    routes = routes_of(hub)
    assert routes.status("1") == (False, 0)
    routes.add(attrs())
    container = Container(hub)
    assert routes.status("1") == (True, 0)
    Container(hub, "else")
    container.close()
    assert routes.status("1") == (False, 0)
    routes.remove("1")
    assert telemetry.states == [(None, "inactive"), ("inactive", "active"), ("active", "inactive"), ("inactive", None)]


def test_what_all_containers_offer_is_told_with_the_address(hub: Hub) -> None:
    routes_of(hub).add(attrs())
    Container(hub, offered_capabilities=[Symbol("A"), Symbol("B")], properties={Symbol("queue-prefix"): "q:"})
    assert mesh(hub).offers["Cb2"] == {"capabilities": ["A", "B"], "naming": {"queue-prefix": "q:"}}
    Container(hub, offered_capabilities=[Symbol("B")])
    assert mesh(hub).offers["Cb2"] == {"capabilities": ["B"], "naming": {}}


def test_the_offer_for_an_address_counts_other_routers_too(hub: Hub) -> None:
    core = core_of(hub)
    routes = routes_of(hub)
    assert routes.offer_for("b2.q") is None
    routes.add(attrs())
    assert routes.offer_for("b2.q") is None, "no container is there"
    core.remote_routers.node_up("B")
    core.remote_routers.add_consumers("B", "Cb2", LINK_BALANCED)
    mesh(hub).told["B", "Cb2"] = {"capabilities": ["B", "C"]}
    assert routes.offer_for("b2.q") == ContainerCapabilities(("B", "C"))
    Container(hub, offered_capabilities=[Symbol("A"), Symbol("B")])
    assert routes.offer_for("b2.q") == ContainerCapabilities(("B",))
    assert routes.offer_for("other") is None


def many_routes(hub: Hub) -> LinkRoutes:
    """Link routes to a container that is not there."""
    routes = routes_of(hub)
    for number in range(COST_A_TURN):
        routes.add(attrs(str(number), prefix=f"b.{number}"))
    return routes


def finish(hub: Hub) -> None:
    """Do all portions."""
    while core_of(hub).context.portions:
        core_of(hub).context.portions.run()


def test_many_routes_are_told_in_portions_when_their_container_comes_or_goes(hub: Hub) -> None:
    core_of(hub).context.telemetry = telemetry = Telemetry()
    routes = many_routes(hub)
    telemetry.states.clear()
    container = Container(hub)
    assert 0 < len(mesh(hub).known) < COST_A_TURN // 4
    assert telemetry.states == [("inactive", "active")] * len(mesh(hub).known)
    finish(hub)
    assert len(mesh(hub).known) == len(telemetry.states) == COST_A_TURN
    telemetry.states.clear()
    container.close()
    assert COST_A_TURN * 3 // 4 < len(mesh(hub).known) < COST_A_TURN
    finish(hub)
    assert (mesh(hub).known, routes.advertised()) == ({}, [])
    assert telemetry.states == [("active", "inactive")] * COST_A_TURN


def test_routes_that_change_before_they_are_told(hub: Hub) -> None:
    """What is deleted or created between two portions is right at once, and stays so."""
    routes = many_routes(hub)
    Container(hub)
    later = next(n for n in range(COST_A_TURN) if f"Cb.{n}" not in mesh(hub).known)
    early = next(n for n in range(COST_A_TURN) if f"Cb.{n}" in mesh(hub).known)
    routes.remove(str(later))
    routes.remove(str(early))
    routes.add(attrs("new", prefix="new"))
    assert "Cnew" in mesh(hub).known
    finish(hub)
    kept = {f"Cb.{n}" for n in range(COST_A_TURN)} - {f"Cb.{later}", f"Cb.{early}"}
    assert set(mesh(hub).known) == {*kept, "Cnew"}


def test_a_container_that_goes_and_comes_while_routes_are_told(hub: Hub) -> None:
    routes = many_routes(hub)
    container = Container(hub)
    finish(hub)
    container.close()
    withdrawn = COST_A_TURN - len(mesh(hub).known)
    assert withdrawn
    again = Container(hub, offered_capabilities=[Symbol("A")])
    finish(hub)
    assert len(mesh(hub).known) == COST_A_TURN
    assert all(offer == {"capabilities": ["A"], "naming": {}} for offer in mesh(hub).offers.values())
    again.close()
    other = Container(hub, "else")
    finish(hub)
    assert mesh(hub).known == {}
    other.close()
    for number in range(COST_A_TURN):
        routes.remove(str(number))
    assert (len(routes), core_of(hub).addresses) == (0, {})


def test_routes_of_a_connection_end_with_it_at_once(hub: Hub) -> None:
    """Also while others are told in portions: its container may create them again."""
    routes = many_routes(hub)
    container, own = Container(hub), Container(hub)
    for number in range(COST_A_TURN):
        routes.add(attrs(f"own-{number}", prefix=None, pattern=f"own.{number}"), own.conn)
    container.close()
    assert len(routes) == 2 * COST_A_TURN
    own.close()
    assert len(routes) == COST_A_TURN
    assert not any("own" in key for key in mesh(hub).known)
    finish(hub)
    assert mesh(hub).known == {}
