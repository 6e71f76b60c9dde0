"""`durableNames` of Brokers and listeners, `strictEdges` of listeners: what routers get, and what the status says."""

from __future__ import annotations

import pytest

from tests.operator.kit import resource
from tests.unit.operator.test_incoming_brokers import BROKER, ENDPOINTS, INCOMING, MESH, wrong
from waymesh_operator.resources.dependents import Broker, Resources, parse_broker
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Ref
from waymesh_operator.router_entities.builders import broker_entities, listener_entity, options_of
from waymesh_operator.router_entities.verdicts import DURABLE_NAMES_UNSET, GOOD, judge

pytestmark = pytest.mark.engine_independent

OUTGOING = Broker(Ref("ns", "store"), MESH.ref, (("store", 5672),))


@pytest.mark.parametrize(("spec", "sent"), [({}, None), ({"durableNames": "user"}, "user")])
def test_routers_get_what_the_broker_says_and_older_routers_nothing(spec: dict[str, str], sent: str | None) -> None:
    broker = parse_broker(resource("Broker", "store", endpoints=ENDPOINTS, **spec))
    (connector,) = broker_entities(broker)
    assert connector.attributes["durableNames"] == sent


@pytest.mark.parametrize(("names", "sent"), [("", None), ("container", "container")])
def test_a_listener_for_brokers_has_it_too(names: str, sent: str | None) -> None:
    listener = Listener("brokers", 5673, role="route-container", durable_names=names)
    entity = listener_entity(MESH.ref, "brokers", ("", 5673), listener.role, offer=options_of(listener))
    assert entity.attributes["durableNames"] == sent


@pytest.mark.parametrize(("strict", "sent"), [(False, None), (True, True)])
def test_a_listener_for_edge_routers_may_be_strict(strict: bool, sent: bool | None) -> None:
    listener = Listener("edges", 5673, role="edge", strict_edges=strict)
    entity = listener_entity(MESH.ref, "edges", ("", 5673), listener.role, offer=options_of(listener))
    assert entity.attributes["strictEdges"] == sent


def test_a_broker_that_connects_to_a_listener_has_no_own_one() -> None:
    (message,) = wrong(**INCOMING, durableNames="user")
    assert "are not valid with direction Incoming" in message


@pytest.mark.parametrize(
    ("broker", "message"),
    [
        (OUTGOING, DURABLE_NAMES_UNSET),
        (Broker(OUTGOING.ref, MESH.ref, OUTGOING.endpoints, durable_names="container"), GOOD.message),
        (Broker(OUTGOING.ref, MESH.ref, OUTGOING.endpoints, durable_names="user"), GOOD.message),
        (BROKER, GOOD.message),
    ],
)
def test_the_status_warns_without_a_value(broker: Broker, message: str) -> None:
    verdict = judge(Resources(MESH, brokers=(broker,)), {})["Broker", broker.ref]
    assert (verdict.good, verdict.message) == (True, message)
