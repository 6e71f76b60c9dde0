"""What people do with JMS works through link routes as if Broker-J were there: the checks of tests/interop/qpid_jms.

Each check runs against the broker itself, through one router, and with client and broker at the two ends of three.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pytest

from tests.brokers.behind import Scene, link_routes
from tests.brokers.broker_j import BrokerJ
from tests.brokers.fixtures import fresh
from tests.interop_brokers import jms_checks
from tests.interop_brokers.jms_checks import Verdict
from tests.kit.fixtures import show_log
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.brokers, pytest.mark.timeout(300)]

CHECKS = jms_checks.names()
Verdicts = dict[str, Verdict]


class Through(Protocol):
    """What runs all checks through so many routers, the first time that it is called for these."""

    def __call__(self, count: int) -> tuple[Verdicts, list[RouterProcess]]:
        """The verdicts, and the routers."""


@pytest.fixture(scope="module")
def broker(_brokerj_durable: BrokerJ) -> BrokerJ:
    """A Broker-J that takes durable messages, running; no test here stops it."""
    if not _brokerj_durable.alive():
        _brokerj_durable.start()
    return _brokerj_durable


@pytest.fixture(scope="module")
def direct(broker: BrokerJ) -> Verdicts:
    """What the checks find without routers."""
    url = f"amqp://127.0.0.1:{broker.ports.anonymous}"
    prefix = fresh("jms")
    jms_checks.make_queues(broker, prefix)
    return jms_checks.run(url, url, prefix)


@pytest.fixture(scope="module")
def through(broker: BrokerJ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Through]:
    """What the checks find with routers between."""
    scenes: dict[int, Scene] = {}
    found: dict[int, Verdicts] = {}

    def run(count: int) -> tuple[Verdicts, list[RouterProcess]]:
        if count not in found:
            routes = link_routes("jms", "amq.topic", "$coordinator")
            scene = scenes[count] = Scene.start(tmp_path_factory.mktemp(f"line{count}"), count, broker, routes)
            prefix = fresh("jms")
            jms_checks.make_queues(broker, prefix)
            urls = [_listener_for_jms(router) for router in scene.routers[:2]]
            found[count] = jms_checks.run(urls[0], urls[-1], prefix)
        return found[count], scenes[count].routers

    yield run
    for scene in scenes.values():
        scene.stop()


def _listener_for_jms(router: RouterProcess) -> str:
    """A listener for clients of the broker alone: what has no address goes there, too. Its URL.

    What the broker offers only a router beside it knows; the others are told.
    """
    port = free_port()
    given = {
        "host": "127.0.0.1",
        "port": str(port),
        "saslMechanisms": "ANONYMOUS",
        "routeAddress": "jms",
        "openCapabilities": "SHARED-SUBS DELAYED_DELIVERY sole-connection-for-container",
    }
    with ManagementClient(router.url) as client:
        client.create("listener", given, name="jms")
    return f"amqp://127.0.0.1:{port}"


@pytest.mark.engine_independent
@pytest.mark.parametrize("check", CHECKS)
def test_broker_alone(direct: Verdicts, check: str) -> None:
    assert direct[check].ok, direct[check].wrong


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("count", [1, 3])
def test_through_routers(
    direct: Verdicts, through: Through, request: pytest.FixtureRequest, count: int, check: str
) -> None:
    verdicts, routers = through(count)
    for router in routers:
        show_log(request.node, router)
    assert verdicts[check].ok, verdicts[check].wrong
    assert verdicts[check].seen == direct[check].seen
