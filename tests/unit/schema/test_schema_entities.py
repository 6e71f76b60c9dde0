"""The table of entity types: names, facts that clients need, the dump and the generated page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from waymesh_schema.convert import convert
from waymesh_schema.docs import entities_page, findings_page, metrics_page, records_page
from waymesh_schema.dump import schema_dump
from waymesh_schema.entities import ENTITY_TYPES, Attribute, EntityType, entity_type
from waymesh_schema.errors import SchemaError

pytestmark = pytest.mark.engine_independent

PREFIX = "org.apache.qpid.dispatch."
ALL = [(entity, attribute) for entity in ENTITY_TYPES.values() for attribute in entity.attributes.values()]
IDS = [f"{entity.name}.{attribute.name}" for entity, attribute in ALL]

# What the status tool of Dispatch asks for, type by type.
ASKED_FOR = {
    "router": "version mode id area workerThreads uptimeSeconds memoryUsage linkRouteCount autoLinkCount linkCount "
    "nodeCount addrCount connectionCount presettledDeliveries droppedPresettledDeliveries acceptedDeliveries "
    "rejectedDeliveries releasedDeliveries modifiedDeliveries deliveriesDelayed1Sec deliveriesDelayed10Sec "
    "deliveriesStuck deliveriesRedirectedToFallback linksBlocked deliveriesIngress deliveriesEgress deliveriesTransit "
    "deliveriesIngressRouteContainer deliveriesEgressRouteContainer",
    "connection": "identity host container role dir isAuthenticated sasl user isEncrypted sslProto sslCipher tenant "
    "lastDlvSeconds uptimeSeconds active opened operStatus adminStatus enableProtocolTrace properties",
    "router.link": "linkType linkDir connectionId identity peer owningAddr capacity undeliveredCount unsettledCount "
    "deliveryCount presettledCount droppedPresettledCount acceptedCount rejectedCount releasedCount modifiedCount "
    "deliveriesDelayed1Sec deliveriesDelayed10Sec deliveriesStuck creditAvailable zeroCreditSeconds adminStatus "
    "operStatus linkName priority settleRate",
    "router.address": "distribution inProcess subscriberCount remoteCount containerCount deliveriesIngress "
    "deliveriesEgress deliveriesRedirectedToFallback deliveriesTransit deliveriesToContainer deliveriesFromContainer "
    "name priority key remoteHostRouters transitOutstanding trackedDeliveries",
    "router.node": "id nextHop routerLink protocolVersion cost linkState validOrigins lastTopoChange instance",
    "router.config.autoLink": "address direction phase externalAddress linkRef operStatus lastError",
    "router.config.linkRoute": "prefix direction distribution operStatus pattern addExternalPrefix delExternalPrefix",
    "allocator": "identity typeSize transferBatchSize localFreeListMax totalAllocFromHeap heldByThreads "
    "batchesRebalancedToThreads batchesRebalancedToGlobal",
    "connector": "connectionStatus connectionMsg failoverUrls",
    "policy": "maxConnections connectionsCurrent connectionsDenied totalDenials",
    "vhostStats": "connectionsApproved connectionsDenied connectionsCurrent sessionDenied senderDenied receiverDenied",
}


@pytest.mark.parametrize(
    ("written", "short"),
    [
        ("listener", "listener"),
        (PREFIX + "listener", "listener"),
        (PREFIX + "router.link", "router.link"),
        (PREFIX + "connection", "connection"),
        ("address", "router.config.address"),
        (PREFIX + "address", "router.config.address"),
        ("router.address", "router.address"),
        ("linkRoute", "router.config.linkRoute"),
        ("auto-link", "router.config.autoLink"),
        ("ssl-profile", "sslProfile"),
        ("org.amqp.management", "org.amqp.management"),
        (PREFIX + "management", "management"),
    ],
)
def test_a_type_is_found_by_any_of_its_names(written: str, short: str) -> None:
    assert entity_type(written).name == short


@pytest.mark.parametrize("written", ["", "Listener", "listners", "org.apache.qpid.dispatch.", "router.link.", "-"])
def test_an_unknown_type_is_refused(written: str) -> None:
    with pytest.raises(SchemaError, match="no such entity type"):
        entity_type(written)


@pytest.mark.parametrize("name", sorted(set(ENTITY_TYPES) - {"org.amqp.management"}))
def test_long_names_have_the_prefix(name: str) -> None:
    assert ENTITY_TYPES[name].long_name == PREFIX + name


@pytest.mark.parametrize(("entity", "attribute"), ALL, ids=IDS)
def test_facts_of_an_attribute_agree(entity: EntityType, attribute: Attribute) -> None:
    assert attribute.description.endswith((".", "*"))
    assert (attribute.values is not None) == (attribute.type == "enum")
    assert not (attribute.required and attribute.default is not None)
    if attribute.default is not None:
        assert convert(attribute, attribute.default) == attribute.default
    assert entity.attribute_name(attribute.name) == attribute.name
    if attribute.deprecated_name:
        assert entity.attribute_name(attribute.deprecated_name) == attribute.name
        assert attribute.deprecated_name not in entity.attributes


@pytest.mark.parametrize(("name", "attributes"), ASKED_FOR.items(), ids=ASKED_FOR)
def test_what_the_status_tools_ask_for_is_there(name: str, attributes: str) -> None:
    assert not set(attributes.split()) - set(ENTITY_TYPES[name].attributes)


def test_base_types() -> None:
    assert entity_type("listener").has_base(PREFIX + "configurationEntity")
    assert entity_type("router.link").has_base(PREFIX + "operationalEntity")
    assert entity_type("management").has_base("org.amqp.management")
    assert all(entity.has_base(PREFIX + "entity") for entity in ENTITY_TYPES.values())
    assert not entity_type("listener").has_base(PREFIX + "operationalEntity")


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("listener", {"CREATE", "READ", "UPDATE", "DELETE"}),
        ("connector", {"CREATE", "READ", "DELETE"}),
        ("router.config.address", {"CREATE", "READ", "DELETE"}),
        ("log", {"READ", "UPDATE"}),
        ("vhost", {"CREATE", "READ", "UPDATE", "DELETE"}),
        ("connection", {"READ", "UPDATE"}),
        ("router.link", {"READ", "UPDATE"}),
        ("router", {"READ", "UPDATE"}),
        ("router.node", {"READ"}),
    ],
)
def test_operations(name: str, operations: set[str]) -> None:
    assert set(ENTITY_TYPES[name].operations) == operations


def test_the_dump_is_plain_and_in_the_shape_that_clients_read() -> None:
    dump = schema_dump()
    assert json.loads(json.dumps(dump)) == dump
    assert dump["prefix"] == "org.apache.qpid.dispatch"
    listener = dump["entityTypes"]["listener"]
    assert listener["fullyQualifiedType"] == PREFIX + "listener"
    assert listener["extends"] == "configurationEntity"
    assert listener["attributes"]["role"]["type"] == ["normal", "inter-router", "route-container", "edge"]
    assert listener["attributes"]["port"]["type"] == "string"
    assert listener["attributes"]["host"]["deprecationName"] == "addr"
    assert listener["attributes"]["authenticatePeer"]["default"] is False
    assert dump["entityTypes"]["router"]["singleton"] is True
    assert dump["entityTypes"]["connector"]["attributes"]["saslPassword"]["hidden"] is True
    assert "hidden" not in listener["attributes"]["port"]


def test_the_pages_of_the_tables_are_current() -> None:
    docs = Path(__file__).parents[3] / "docs"
    pages = {"entities": entities_page, "records": records_page, "metrics": metrics_page, "findings": findings_page}
    for name, page in pages.items():
        made = page()
        hint = f"run python -m waymesh_schema.docs {name} > docs/{name}.md"
        assert (docs / f"{name}.md").read_text(encoding="utf-8") == made, hint
