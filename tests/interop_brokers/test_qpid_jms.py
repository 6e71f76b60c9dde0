"""JMS through link routes works as with Broker-J itself: the checks of tests/interop/qpid_jms.

Each check runs against the broker itself, through one router, and with client and broker at the two ends of three.
Those of topics (subscriptions outlive links and connections) run also with two routers that both are beside the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.brokers.behind import ACTIVE_S, Scene, connected, connector, link_routes
from tests.brokers.broker_j import BrokerJ
from tests.brokers.fixtures import fresh
from tests.interop_brokers import jms_checks
from tests.interop_brokers.jms_checks import Verdict
from tests.kit.fixtures import show_log
from tests.kit.mesh import Mesh
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.brokers, pytest.mark.timeout(700)]

CHECKS = jms_checks.names()
TOPICS = jms_checks.names("Topic")
Verdicts = dict[str, Verdict]


ROUTES = link_routes("jms", "amq.topic", "$coordinator")


class Through(Protocol):
    """What runs all checks through the routers of a place, the first time that it is called for these."""

    def __call__(self, place: str) -> tuple[Verdicts, list[RouterProcess]]:
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
    scenes: dict[str, Scene] = {}
    found: dict[str, Verdicts] = {}

    def run(place: str) -> tuple[Verdicts, list[RouterProcess]]:
        if place not in found:
            scene = scenes[place] = PLACES[place](tmp_path_factory.mktemp(place), broker)
            prefix = fresh("jms")
            jms_checks.make_queues(broker, prefix)
            urls = [listener_for_jms(router) for router in scene.routers[:2]]
            found[place] = jms_checks.run(urls[0], urls[-1], prefix, *CHECKS_AT.get(place, ()))
        return found[place], scenes[place].routers

    yield run
    for scene in scenes.values():
        scene.stop()


def _one_router(folder: Path, broker: BrokerJ) -> Scene:
    return Scene.start(folder, 1, broker, ROUTES)


def _three_routers(folder: Path, broker: BrokerJ) -> Scene:
    """Client and broker at the two ends."""
    return Scene.start(folder, 3, broker, ROUTES)


def two_beside(folder: Path, broker: BrokerJ) -> Scene:
    """Two routers that the broker takes for one container, so that durable subscriptions are found through both."""
    mesh = Mesh(folder, 2, "line", connector(broker, openContainerId="mesh") + ROUTES).start()
    for router in mesh.routers:
        wait_until(lambda router=router: connected(router), ACTIVE_S, router.log_tail)  # type: ignore[misc]
    return Scene(broker, mesh.routers)


PLACES: dict[str, Callable[[Path, BrokerJ], Scene]] = {
    "one_router": _one_router,
    "three_routers": _three_routers,
    "two_beside": two_beside,
}
CHECKS_AT = {"two_beside": TOPICS}
"""Where not all checks run."""


def listener_for_jms(router: RouterProcess) -> str:
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


@pytest.mark.parametrize(("place", "check"), [(p, check) for p in PLACES for check in CHECKS_AT.get(p, CHECKS)])
def test_through_routers(
    direct: Verdicts, through: Through, request: pytest.FixtureRequest, place: str, check: str
) -> None:
    verdicts, routers = through(place)
    for router in routers:
        show_log(request.node, router)
    assert verdicts[check].ok, verdicts[check].wrong
    assert verdicts[check].seen == direct[check].seen
