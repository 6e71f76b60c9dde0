"""The core set with Artemis behind one router and at the far end of three."""

from __future__ import annotations

import pytest

from tests.brokers.artemis import Artemis
from tests.brokers.behind import Scene
from tests.interop_brokers.conftest import Scenes
from tests.interop_brokers.core_checks import CoreSet

pytestmark = [pytest.mark.interop, pytest.mark.brokers, pytest.mark.engine_independent]

PLACES = [(1, "compiled"), (3, "compiled")]


@pytest.fixture(params=PLACES, ids=[f"{count}-{engine}" for count, engine in PLACES])
def scene(request: pytest.FixtureRequest, scenes: Scenes, artemis: Artemis) -> Scene:
    """The broker's queues are reached by autolinks and by link routes."""
    count, engine = request.param
    return scenes.get(request, artemis, count, engine)


class TestArtemis(CoreSet):
    """All of the core set."""
