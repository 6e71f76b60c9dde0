"""The core set with Broker-J on a durable store behind one router and at the far end of three."""

from __future__ import annotations

import pytest

from tests.brokers.behind import Scene
from tests.brokers.broker_j import BrokerJ
from tests.interop_brokers.conftest import Scenes
from tests.interop_brokers.core_checks import CoreSet

pytestmark = [pytest.mark.interop, pytest.mark.brokers]

PLACES = [(1, "compiled"), (3, "compiled"), (1, "interpreted")]


@pytest.fixture(params=PLACES, ids=[f"{count}-{engine}" for count, engine in PLACES])
def scene(request: pytest.FixtureRequest, scenes: Scenes, brokerj_durable: BrokerJ) -> Scene:
    """The broker's queues are reached by autolinks and by link routes."""
    count, engine = request.param
    return scenes.get(request, brokerj_durable, count, engine)


class TestBrokerJ(CoreSet):
    """All of the core set."""
