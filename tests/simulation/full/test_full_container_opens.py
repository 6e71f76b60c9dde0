"""The open of a connector with role route-container. Dispatch book 2.2.2."""

from __future__ import annotations

import pytest

from tests.simulation.full.containers import Broker
from tests.simulation.full.network import Network
from waymesh_amqp.performatives import Open
from waymesh_amqp.states import OPENED


def opened(extra: str) -> Open:
    """The open that a connector with these further attributes sends."""
    network = Network()
    broker = Broker(network)
    broker.connector(network.router("A"), extra=extra)
    network.start()
    network.until(lambda: bool(broker.conns) and broker.conns[0].state == OPENED, 2.0)
    seen = broker.conns[0].remote
    assert seen is not None
    return seen


def test_open_properties() -> None:
    seen = opened('openProperties: {\n"tenant": "blue",\n"limits": {"n": [1, true]}\n}\n')
    assert isinstance(seen.properties, dict)
    assert seen.properties["tenant"] == "blue"
    assert seen.properties["limits"] == {"n": [1, True]}
    assert seen.properties["product"]


@pytest.mark.parametrize(("extra", "hostname"), [("", "broker"), ("openHostname: tenants/blue", "tenants/blue")])
def test_the_hostname_names_the_virtual_host(extra: str, hostname: str) -> None:
    """Two connectors to one broker may mean two virtual hosts of it."""
    assert opened(extra).hostname == hostname


def test_the_container_id_of_several_routers() -> None:
    assert opened("").container_id == "A"
    assert opened("openContainerId: mesh").container_id == "mesh"


@pytest.mark.parametrize(("given", "told_ms"), [(1, 2000), (4, 2000), (60, 30000), (0, None)])
def test_heartbeats_of_brokers_are_never_asked_for_more_often_than_every_two_seconds(
    given: int, told_ms: int | None
) -> None:
    assert opened(f"idleTimeoutSeconds: {given}").idle_time_out == told_ms
