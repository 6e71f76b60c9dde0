"""Connectors to Broker-J: container-id, virtual host, failover, and what the broker forbids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.behind import ACTIVE_S, connected, connector, link_routes
from tests.brokers.broker_j import BrokerJ
from tests.brokers.broker_j_config import READER, READER_PASSWORD
from tests.brokers.fixtures import fresh
from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.fixtures import StartRouter
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.brokers, pytest.mark.engine_independent]

NO_ROUTE = "qd:no-route-to-dest: No route to the destination node"


def wait_connected(router: RouterProcess, name: str = "broker") -> None:
    wait_until(lambda: connected(router, name), ACTIVE_S, router.log_tail)


def state(router: RouterProcess, name: str = "broker") -> tuple[str, str]:
    """(connectionStatus, connectionMsg)"""
    with ManagementClient(router.url) as client:
        row = client.read("connector", name=name)
    return str(row["connectionStatus"]), str(row["connectionMsg"])


def wait_failed(router: RouterProcess, reason: str) -> None:
    """Until it has failed for that reason: both at once, because it tries again and again."""

    def failed() -> bool:
        status, message = state(router)
        return status == "FAILED" and reason in message

    wait_until(failed, ACTIVE_S, lambda: str(state(router)))


def check_carries(router: RouterProcess, broker: BrokerJ) -> None:
    """The link route `routed` leads to the broker."""
    queue = fresh("routed")
    broker.create_queue(queue)
    with Client(router.url) as client:
        assert client.sender(queue).send("hello").outcome() == "accepted"
        (received,) = client.receiver(queue, credit=1).take(1)
        assert received.body == "hello"


# ---- who we are
def test_plain(brokerj: BrokerJ, start_router: StartRouter) -> None:
    router = start_router(extra=connector(brokerj) + link_routes("routed"))
    wait_connected(router)
    check_carries(router, brokerj)


def test_scram(brokerj: BrokerJ, start_router: StartRouter) -> None:
    changes: dict[str, Any] = {"port": brokerj.ports.scram, "saslMechanisms": "SCRAM-SHA-256"}
    router = start_router(extra=connector(brokerj, **changes) + link_routes("routed"))
    wait_connected(router)
    check_carries(router, brokerj)


def test_anonymous(brokerj: BrokerJ, start_router: StartRouter) -> None:
    changes: dict[str, Any] = {"port": brokerj.ports.anonymous, "saslMechanisms": "ANONYMOUS"}
    router = start_router(extra=connector(brokerj, **changes) + link_routes("routed"))
    wait_connected(router)
    check_carries(router, brokerj)


def external(brokerj: BrokerJ, authority: Authority, **changes: Any) -> str:
    """Configuration of a connector whose certificate says router1; the broker's is for localhost."""
    certificate = authority.issue(fresh("router"), {"CN": "router1"})
    profile = section(
        "sslProfile", name="tls", caCertFile=authority.cert, certFile=certificate.cert, privateKeyFile=certificate.key
    )
    given = {"port": brokerj.ports.tls, "saslMechanisms": "EXTERNAL", "sslProfile": "tls", **changes}
    return profile + connector(brokerj, **given)


def test_external(brokerj: BrokerJ, start_router: StartRouter, broker_authority: Authority) -> None:
    router = start_router(extra=external(brokerj, broker_authority, host="localhost") + link_routes("routed"))
    wait_connected(router)
    check_carries(router, brokerj)
    assert "router1" in {connection["principal"] for connection in brokerj.connections()}


@pytest.mark.parametrize("verify", [True, False])
def test_certificate_for_another_host(
    brokerj: BrokerJ, start_router: StartRouter, broker_authority: Authority, verify: bool
) -> None:
    """Refused, unless the host name is not to be verified."""
    router = start_router(extra=external(brokerj, broker_authority, host="127.0.0.1", verifyHostname=verify))
    if verify:
        wait_failed(router, "certificate")
    else:
        wait_connected(router)


def test_wrong_password(brokerj: BrokerJ, start_router: StartRouter) -> None:
    """It says so; nothing that needs the broker is there."""
    auto = section("autoLink", name="auto", address="queue.x", direction="in", connection="broker")
    router = start_router(extra=connector(brokerj, saslPassword="wrong") + link_routes("routed") + auto)
    wait_failed(router, "the peer refused us")
    with ManagementClient(router.url) as client:
        assert client.read("autoLink", name="auto")["operStatus"] == "inactive"
    with Client(router.url) as client:
        assert client.receiver("routed.x").wait_detached() == NO_ROUTE


# ---- which virtual host we mean
def test_open_hostname(brokerj: BrokerJ, start_router: StartRouter) -> None:
    """A virtual host of the broker, and one that it has not."""
    router = start_router(
        extra=connector(brokerj, "good", openHostname="default")
        + connector(brokerj, "bad", openHostname="nowhere")
        + link_routes("routed", connection="good")
    )
    wait_connected(router, "good")
    check_carries(router, brokerj)
    wait_until(lambda: "nowhere" in state(router, "bad")[1], ACTIVE_S, lambda: str(state(router, "bad")))


# ---- where else to go
def test_failover_urls(brokerj: BrokerJ, start_router: StartRouter) -> None:
    changes: dict[str, Any] = {"port": free_port(), "failoverUrls": f"amqp://127.0.0.1:{brokerj.port}"}
    router = start_router(extra=connector(brokerj, **changes) + link_routes("routed"))
    wait_connected(router)
    check_carries(router, brokerj)


def test_failover_from_a_broker_that_refuses_us(brokerj: BrokerJ, start_router: StartRouter) -> None:
    """The first one answers, but takes no mechanism of ours."""
    changes: dict[str, Any] = {
        "port": brokerj.ports.scram,
        "saslMechanisms": "PLAIN",
        "failoverUrls": f"amqp://127.0.0.1:{brokerj.port}",
    }
    router = start_router(extra=connector(brokerj, **changes) + link_routes("routed"))
    wait_connected(router)
    check_carries(router, brokerj)


def test_a_broker_that_appears_later(tmp_path: Path, start_router: StartRouter) -> None:
    """Refused until it is there, then it works: nothing has to be configured again."""
    broker = BrokerJ(tmp_path / "later")
    router = start_router(extra=connector(broker) + link_routes("routed"))
    with Client(router.url) as client:
        assert client.receiver("routed.x").wait_detached() == NO_ROUTE
        assert client.sender("routed.x").wait_detached() == NO_ROUTE
    with broker:
        wait_connected(router)
        check_carries(router, broker)


# ---- what the broker forbids
Provide = Callable[[str, dict[str, Any]], None]


@pytest.fixture
def provide(brokerj: BrokerJ) -> Iterator[Provide]:
    """Give the virtual host an access control or connection limit provider, until the test is over."""
    made: list[str] = []

    def add(kind: str, attributes: dict[str, Any]) -> None:
        brokerj.create(kind, "rules", **attributes)
        made.append(kind)

    yield add
    for kind in made:
        brokerj.delete(kind, "rules")


def test_access_denied(brokerj: BrokerJ, start_router: StartRouter, provide: Provide) -> None:
    """Links are refused with the broker's error; an autolink says it and waits, it does not try again at once."""
    queue = fresh("routed")
    brokerj.create_queue(queue)
    denied = {"identity": READER, "outcome": "DENY_LOG", "operation": "ALL", "objectType": "ALL"}
    rules = [
        {**denied, "operation": "CONSUME", "objectType": "QUEUE", "attributes": {"NAME": queue}},
        {**denied, "operation": "PUBLISH", "objectType": "EXCHANGE", "attributes": {"ROUTING_KEY": queue}},
    ]
    provide("virtualhostaccesscontrolprovider", {"type": "RuleBased", "rules": rules, "defaultResult": "ALLOWED"})
    auto = section("autoLink", name="auto", address=queue, direction="in", connection="broker")
    user = {"saslUsername": READER, "saslPassword": READER_PASSWORD}
    router = start_router(extra=connector(brokerj, **user) + link_routes("routed") + auto)
    wait_connected(router)
    with Client(router.url) as client:
        refused = client.receiver(queue).wait_detached()
        assert refused is not None
        assert refused.startswith("amqp:unauthorized-access"), refused
    with ManagementClient(router.url) as management:

        def error() -> object:
            row = management.read("autoLink", name="auto")
            return row["lastError"] if row["operStatus"] == "failed" else None

        wait_until(error)


def test_connection_limit(brokerj: BrokerJ, start_router: StartRouter, provide: Provide) -> None:
    """The connection too many is refused and says why."""
    rules = [{"identity": READER, "countLimit": 1}]
    provide("virtualhostconnectionlimitprovider", {"type": "RuleBased", "rules": rules})
    user = {"saslUsername": READER, "saslPassword": READER_PASSWORD}
    router = start_router(extra=connector(brokerj, **user))
    wait_connected(router)
    other = start_router("B", connector(brokerj, **user))
    wait_until(lambda: "limit" in state(other)[1], ACTIVE_S, lambda: str(state(other)))
    assert connected(router)
