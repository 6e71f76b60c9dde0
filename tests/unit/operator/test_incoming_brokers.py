"""Brokers that connect to the routers: what is refused, the entities of links to them, and the status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.operator.kit import CRDS, resource
from tests.unit.operator.test_operator_status import NOW, ROUTER, conditions, fits, seen
from waymesh_operator.errors import ManifestError
from waymesh_operator.planning.status.conditions import MeshSnapshot
from waymesh_operator.planning.status.dependents import autolink_status, broker_status, linkroute_status
from waymesh_operator.resources.crds import findings, rule_findings
from waymesh_operator.resources.dependents import AutoLink, Broker, LinkRoute, Resources, parse_broker
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.manifests import parse_text
from waymesh_operator.resources.router import Ref
from waymesh_operator.resources.validation import check
from waymesh_operator.router_entities.names import AUTOLINK, CONNECTOR, LINKROUTE
from waymesh_operator.router_entities.verdicts import judge
from waymesh_operator.routers.observed import RouterState

pytestmark = pytest.mark.engine_independent

MESH = replace(ROUTER, listeners=(Listener("brokers", 5673, role="route-container"),))
BROKER = Broker(Ref("ns", "store"), MESH.ref, (), incoming_id="store-1")
LINK = AutoLink(Ref("ns", "orders"), MESH.ref, "orders", "in", broker=BROKER.ref)
ROUTE = LinkRoute(Ref("ns", "archive"), MESH.ref, "both", prefix="archive", broker=BROKER.ref)
ALL = Resources(MESH, brokers=(BROKER,), autolinks=(LINK,), linkroutes=(ROUTE,))
INCOMING = {"direction": "Incoming", "brokerContainerId": "store-1"}
ENDPOINTS = [{"host": "store", "port": 5672}]


def wrong(**spec: Any) -> list[str]:
    made = resource("Broker", "store", **spec)
    schema = CRDS["Broker"].schema
    broken = [message for _, message in findings(schema["properties"]["spec"], made["spec"])]
    return broken or [message for _, message in rule_findings(schema, made)]


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({}, "endpoints is required, except"),
        ({"brokerContainerId": "a", "endpoints": ENDPOINTS}, "is only valid with direction Incoming"),
        ({"direction": "Incoming"}, "brokerContainerId is required"),
        ({**INCOMING, "endpoints": ENDPOINTS}, "are not valid with direction Incoming"),
        ({**INCOMING, "hostname": "a"}, "are not valid with direction Incoming"),
        ({**INCOMING, "containerId": "a"}, "are not valid with direction Incoming"),
        ({**INCOMING, "tls": {}}, "are not valid with direction Incoming"),
        ({**INCOMING, "auth": {"mechanism": "ANONYMOUS"}}, "are not valid with direction Incoming"),
        ({**INCOMING, "placement": {"routers": "One"}}, "placement is not valid"),
        ({"direction": "Both", "endpoints": ENDPOINTS}, "must be one of Outgoing, Incoming"),
        ({**INCOMING, "brokerContainerId": ""}, "between 1 and 253"),
        ({**INCOMING, "brokerContainerId": "a\n"}, "control characters"),
    ],
)
def test_fields_of_the_other_direction_are_refused(spec: dict[str, Any], word: str) -> None:
    (message,) = wrong(**spec)
    assert word in message


def test_both_directions_are_accepted() -> None:
    assert (wrong(**INCOMING), wrong(endpoints=ENDPOINTS)) == ([], [])
    found = parse_broker(resource("Broker", "store", **INCOMING))
    assert (found.incoming_id, found.endpoints) == ("store-1", ())
    assert parse_broker(resource("Broker", "store", endpoints=ENDPOINTS)).incoming_id == ""


def test_links_name_the_container_on_every_router_and_nothing_connects() -> None:
    for router in seen(ALL).desired.mesh.routers:
        made = [entity for entity in router.entities if entity.type in (AUTOLINK, LINKROUTE)]
        assert len(made) == 3
        assert {(e.attributes["connection"], e.attributes["containerId"]) for e in made} == {(None, "store-1")}
        connectors = (entity for entity in router.entities if entity.type == CONNECTOR)
        assert all(entity.attributes["role"] == "inter-router" for entity in connectors)


def test_a_router_without_a_listener_for_brokers_is_told() -> None:
    verdicts = judge(replace(ALL, router=ROUTER), {})
    broker, link = verdicts["Broker", BROKER.ref], verdicts["AutoLink", LINK.ref]
    assert (broker.accepted, broker.reason) == (False, "NoListener")
    assert (link.resolved_refs, link.reason) == (False, "BrokerUnusable")


# ---- several of one container-id
def test_of_two_with_one_container_id_the_older_is_used() -> None:
    younger = replace(BROKER, ref=Ref("ns", "a"), created="2026")
    link = replace(LINK, ref=Ref("ns", "more"), address="more", broker=younger.ref)
    verdicts = judge(replace(ALL, brokers=(younger, BROKER), autolinks=(LINK, link)), {})
    assert verdicts["Broker", BROKER.ref].good
    told = "Broker ns/store is older and already has brokerContainerId store-1"
    assert verdicts["Broker", younger.ref].message == told
    assert verdicts["AutoLink", link.ref].reason == "BrokerUnusable"
    other = replace(younger, incoming_id="store-2")
    assert all(verdict.good for verdict in judge(replace(ALL, brokers=(other, BROKER)), {}).values())


def test_brokers_that_routers_connect_to_may_share_all() -> None:
    """Two hosts of a replicated broker, and routers that call themselves the same at both."""
    one = Broker(Ref("ns", "one"), MESH.ref, (("one", 5672),), container_id="mesh")
    two = replace(one, ref=Ref("ns", "two"), endpoints=(("two", 5672),))
    both = replace(LINK, ref=Ref("ns", "both"), broker=None, container_id="store")
    mesh = Resources(MESH, brokers=(one, two), autolinks=(both,))
    assert all(verdict.good for verdict in judge(mesh, {}).values())
    (link,) = (e for e in seen(mesh).desired.mesh.routers[0].entities if e.type == AUTOLINK)
    assert (link.attributes["connection"], link.attributes["containerId"]) == (None, "store")


def test_a_link_by_broker_and_one_by_its_container_id_are_the_same() -> None:
    same = replace(LINK, ref=Ref("ns", "z"), broker=None, container_id="store-1", created="2026")
    verdicts = judge(replace(ALL, autolinks=(LINK, same)), {})
    assert verdicts["AutoLink", LINK.ref].good
    assert verdicts["AutoLink", same.ref].conflicted


MANIFESTS = """
apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: mesh}
spec: {listeners: [{name: brokers, port: 5673, role: route-container}]}
---
apiVersion: waymesh.io/v1alpha1
kind: Broker
metadata: {name: one}
spec: {routerRef: {name: mesh}, direction: Incoming, brokerContainerId: store}
---
apiVersion: waymesh.io/v1alpha1
kind: Broker
metadata: {name: two}
spec: {routerRef: {name: mesh}, direction: Incoming, brokerContainerId: store}
"""


def test_files_with_two_of_one_container_id_are_refused() -> None:
    with pytest.raises(ManifestError, match="store is already used by Broker/one"):
        check(parse_text(MANIFESTS, "m.yaml")[0], CRDS)


# ---- status
def mesh_with(connected: Iterable[str], resources: Resources = ALL, **fields: Any) -> MeshSnapshot:
    """Links are active where the broker has connected."""
    names = ("k8s/ns/AutoLink/orders", "k8s/ns/LinkRoute/archive/in", "k8s/ns/LinkRoute/archive/out")
    away: Mapping[str, Any] = {"operStatus": "inactive"}
    others = {router.id for router in seen(ALL).desired.mesh.routers} - set(connected)
    live = {(router, name): away for router in others for name in names}
    facts = {router: {"containers": frozenset({"store-1"})} for router in connected}
    return seen(resources, live=live, facts=facts, **fields)


def test_one_router_with_the_broker_is_enough() -> None:
    mesh = mesh_with(["mesh-1"])
    broker = broker_status(BROKER, mesh, {}, NOW)
    assert fits("Broker", broker)
    assert (broker["connected"], broker["state"], broker["lastError"]) == ("1/3", "active", "")
    assert broker["routers"] == [{"id": "mesh-1", "operStatus": "active"}]
    assert conditions(broker)["Ready"] == ("True", "Ready", "on mesh-1")
    for status in (autolink_status(LINK, mesh, {}, NOW), linkroute_status(ROUTE, mesh, {}, NOW)):
        assert (status["active"], status["state"]) == ("1/1", "active")
        assert conditions(status)["Ready"] == ("True", "Ready", "on mesh-1")


def test_links_by_container_id_count_the_routers_to_which_it_has_connected() -> None:
    link = replace(LINK, broker=None, container_id="store-1")
    route = replace(ROUTE, broker=None, container_id="store-1")
    by_id = replace(ALL, brokers=(), autolinks=(link,), linkroutes=(route,))
    mesh = mesh_with(["mesh-1"], by_id)
    for status in (autolink_status(link, mesh, {}, NOW), linkroute_status(route, mesh, {}, NOW)):
        assert (status["active"], conditions(status)["Ready"][0]) == ("1/1", "True")
    # Routers that connect to it themselves do not tell it among those that have connected: all are to be active.
    outgoing = replace(mesh, observed=mesh_with([], by_id).observed)
    assert conditions(autolink_status(link, outgoing, {}, NOW))["Ready"][0] == "False"


def test_a_broker_that_has_connected_to_none_is_told_everywhere() -> None:
    mesh = mesh_with([])
    said = "mesh-0: no broker with container-id store-1 has connected"
    broker = broker_status(BROKER, mesh, {}, NOW)
    assert (broker["connected"], broker["state"], broker["lastError"]) == ("0/3", "inactive", said)
    assert conditions(broker)["Ready"] == ("False", "NotConnected", said)
    assert conditions(broker)["Programmed"][0] == "True"
    link = autolink_status(LINK, mesh, {}, NOW)
    assert (link["active"], link["lastError"]) == ("0/3", said)


def test_failures_where_the_broker_is_not_are_not_hidden() -> None:
    mesh = mesh_with(["mesh-1"], states={"mesh-2": RouterState.STARTING})
    for status in (broker_status(BROKER, mesh, {}, NOW), autolink_status(LINK, mesh, {}, NOW)):
        assert status["state"] == "lost"
        assert conditions(status)["Ready"][1] == "NotProgrammed"
    assert conditions(broker_status(BROKER, None, {}, NOW))["ResolvedRefs"][1] == "RouterMissing"
