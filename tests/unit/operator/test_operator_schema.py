"""The CRDs, the entities built from resources, and the table of router entities agree."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from waymesh_operator.places.kubernetes.context import ClusterContext, OperatorSettings
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.resources.crds import load_crds
from waymesh_operator.resources.dependents import Address, AutoLink, Broker, BrokerTls, LinkRoute, Resources
from waymesh_operator.resources.exchange import Binding, Exchange
from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.router_entities.actions import changed_attributes
from waymesh_operator.router_entities.builders import (
    MUTUAL,
    ListenerOptions,
    Security,
    address_entity,
    autolink_entities,
    broker_entities,
    connector_entity,
    http_entity,
    linkroute_entities,
    listener_entity,
    log_entities,
    mesh_profile,
    router_entity,
)
from waymesh_operator.router_entities.exchanges import exchange_entities
from waymesh_operator.router_entities.names import ADDRESS, AUTOLINK, EXCHANGE, LINKROUTE, Entity
from waymesh_schema.entities import entity_type
from waymesh_schema.loglevels import LOG_MODULES, parse_levels
from waymesh_schema.validate import validate_create

pytestmark = pytest.mark.engine_independent

REF, MESH = Ref("ns", "x"), Ref("ns", "mesh")


def field(kind: str, path: str) -> Mapping[str, Any]:
    """The schema of a field of a kind's spec."""
    schema = load_crds()[kind].schema["properties"]["spec"]
    for name in path.split("."):
        schema = schema["items"] if name == "[]" else schema["properties"][name]
    return schema  # type: ignore[no-any-return]


def attribute(kind: str, name: str) -> Any:
    return entity_type(kind).attributes[name]


SAME = [
    ("Address", ADDRESS, ("ingressPhase", "egressPhase", "priority"), ("minimum", "maximum")),
    ("AutoLink", AUTOLINK, ("phase",), ("minimum", "maximum")),
    ("Exchange", EXCHANGE, ("phase", "alternatePhase"), ("minimum", "maximum")),
]


@pytest.mark.parametrize(("kind", "entity", "names", "bounds"), SAME, ids=[row[0] for row in SAME])
def test_numbers_have_the_bounds_of_the_table(
    kind: str, entity: str, names: tuple[str, ...], bounds: tuple[str, ...]
) -> None:
    for name, bound in itertools.product(names, bounds):
        assert field(kind, name)[bound] == getattr(attribute(entity, name), bound), (name, bound)


@pytest.mark.parametrize(
    ("kind", "path", "entity", "name", "extra"),
    [
        ("Address", "distribution", ADDRESS, "distribution", set()),
        ("Address", "expired", ADDRESS, "expired", set()),
        ("AutoLink", "direction", AUTOLINK, "direction", set()),
        ("LinkRoute", "direction", LINKROUTE, "direction", {"both"}),
        ("Exchange", "matchMethod", EXCHANGE, "matchMethod", set()),
        ("Router", "role", "router", "mode", set()),
    ],
)
def test_words_are_words_of_the_table(kind: str, path: str, entity: str, name: str, extra: set[str]) -> None:
    words = set(field(kind, path)["enum"])
    assert words - extra <= set(attribute(entity, name).values), path
    if kind in ("AutoLink", "LinkRoute", "Address", "Exchange"):
        assert set(attribute(entity, name).values) <= words, "the CRD lacks a word"


def test_log_modules_and_levels_are_those_of_the_table() -> None:
    assert set(field("Router", "logging.modules.[].module")["enum"]) == set(LOG_MODULES) - {"DEFAULT"}
    for level in field("Router", "logging.level")["enum"]:
        parse_levels(level if level == "none" else f"{level}+")


def test_every_attribute_that_can_be_configured_can_be_asked_for() -> None:
    """All of the table's settings of the four kinds that users make are fields of the CRD, under the same name."""
    renamed = {"containerId": "containerId", "connection": "brokerRef"}
    for kind, entity in (
        ("Address", ADDRESS), ("AutoLink", AUTOLINK), ("LinkRoute", LINKROUTE), ("Exchange", EXCHANGE),
    ):  # fmt: skip
        fields = load_crds()[kind].schema["properties"]["spec"]["properties"]
        fixed = {"distribution"} if kind == "LinkRoute" else set()
        for name, setting in entity_type(entity).attributes.items():
            if setting.create and not setting.deprecated and name not in {"name", "identity", "type", *fixed}:
                assert renamed.get(name, name) in fields, (kind, name)


def brokers() -> Iterable[Broker]:
    for tls, mechanism, count in itertools.product(
        (None, BrokerTls(), BrokerTls("ca", verify_hostname=False)), ("", "PLAIN", "EXTERNAL", "ANONYMOUS"), (1, 2)
    ):
        endpoints = (("a", 5672), ("::1", 5673))[:count]
        hostname = "vhost" if count == 2 else ""
        yield Broker(REF, MESH, endpoints, hostname, container_id=hostname, tls=tls, mechanism=mechanism, secret="s")


def entities() -> Iterable[Entity]:
    """Everything that can be made of resources."""
    yield router_entity("mesh-0", "interior")
    yield mesh_profile()
    yield http_entity(MESH, 9090)
    for tls, auth in itertools.product((False, True), ("none", "plain", "scram", "mtls")):
        if auth == "plain" and not tls:
            continue  # the custom resource definition refuses it
        offer = ListenerOptions("queue", ("A", "B")) if tls else ListenerOptions()
        yield listener_entity(MESH, "listener/a", ("", 1), "normal", Security(tls, auth), offer)
    yield connector_entity(MESH, "mesh-0", ("h", 1), MUTUAL)
    yield from log_entities("info", {"HTTP": "none"})
    yield address_entity(Address(REF, MESH, prefix="p", waypoint=True, ingress_phase=0, egress_phase=1, priority=3))
    yield address_entity(Address(REF, MESH, pattern="a.#", enable_fallback=True, expired="drop"))
    for broker in brokers():
        yield from broker_entities(broker, "user" if broker.mechanism == "PLAIN" else "")
    for ref, policy in itertools.product((REF, None), ("Quiesce", "Immediate")):
        link = AutoLink(REF, MESH, "q", "in", broker=ref, container_id=None if ref else "c", phase=1, fallback=True)
        yield from autolink_entities(dataclasses.replace(link, external_address="e", deletion_policy=policy))
        browser = dataclasses.replace(link, selector="a = 1", no_local=True, distribution_mode="copy")
        properties = (("priority", 3), ("text", "t"))
        yield from autolink_entities(
            dataclasses.replace(browser, capabilities=("queue", "x"), link_properties=properties)
        )
    route = LinkRoute(REF, MESH, "both", pattern="p.#", container_id="c", add_external_prefix="a")
    yield from linkroute_entities(dataclasses.replace(route, del_external_prefix="d"))
    bindings = (Binding("#", "b"), Binding("a/#", "b"), Binding("a/#", "b", 1))
    yield from exchange_entities(Exchange(REF, MESH, "a", 1, "c", 2, "mqtt", bindings))
    yield from exchange_entities(Exchange(REF, MESH, "a"))


@pytest.mark.parametrize("entity", list(entities()), ids=lambda e: f"{e.type}-{e.name}")
def test_every_entity_is_taken_by_the_table_and_then_does_not_differ(entity: Entity) -> None:
    given = {name: value for name, value in entity.attributes.items() if value is not None}
    full = validate_create(entity_type(entity.type), {**given, "name": entity.name})
    assert changed_attributes(entity, Entity(entity.type, entity.name, full)) == {}


def test_all_entities_of_a_mesh_have_names_of_their_own_and_are_made_after_what_they_refer_to() -> None:
    broker = Broker(REF, MESH, (("a", 1),), tls=BrokerTls())
    resources = Resources(
        Router(MESH, size=3, uid="u"),
        (Address(Ref("ns", "a"), MESH, prefix="p"),),
        (broker,),
        (AutoLink(REF, MESH, "q", "in", broker=REF),),
        (LinkRoute(REF, MESH, "both", prefix="p", broker=REF),),
    )
    for router in desired_cluster(resources, ClusterContext(OperatorSettings("i"))).mesh.routers:
        names = [(e.type, e.name) for e in router.entities]
        assert len(set(names)) == len(names)
        known = {e.name for e in router.entities}
        for entity in router.entities:
            for reference in ("sslProfile", "connection"):
                assert entity.attributes.get(reference) in {None, *known}
