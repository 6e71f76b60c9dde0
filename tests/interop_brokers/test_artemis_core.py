"""The core set with Artemis behind one router and at the far end of three."""

from __future__ import annotations

import pytest

from tests.brokers.artemis import Artemis
from tests.brokers.behind import Scene
from tests.interop_brokers import core_checks
from tests.interop_brokers.conftest import Scenes

pytestmark = [pytest.mark.interop, pytest.mark.brokers, pytest.mark.engine_independent]

PLACES = [(1, "compiled"), (3, "compiled")]


@pytest.fixture(params=PLACES, ids=[f"{count}-{engine}" for count, engine in PLACES])
def scene(request: pytest.FixtureRequest, scenes: Scenes, artemis: Artemis) -> Scene:
    """The broker's queues are reached by autolinks and by link routes."""
    count, engine = request.param
    return scenes.get(request, artemis, count, engine)


@pytest.mark.parametrize("way", core_checks.WAYS)
def test_send_and_receive(scene: Scene, way: str) -> None:
    core_checks.check_send_and_receive(scene, core_checks.WAYS[way](scene))


@pytest.mark.parametrize("way", core_checks.WAYS)
def test_large(scene: Scene, way: str) -> None:
    core_checks.check_large(scene, core_checks.WAYS[way](scene))


@pytest.mark.parametrize("way", core_checks.WAYS)
def test_outcomes(scene: Scene, way: str) -> None:
    core_checks.check_outcomes(scene, core_checks.WAYS[way](scene))


@pytest.mark.parametrize("way", core_checks.WAYS)
def test_receiver_lost(scene: Scene, way: str) -> None:
    core_checks.check_losses(scene, core_checks.WAYS[way](scene))


def test_drain(scene: Scene) -> None:
    core_checks.check_drain(scene, core_checks.routed(scene))


def test_unknown_queue(scene: Scene) -> None:
    core_checks.check_unknown_queue(scene)


def test_transaction_commits(scene: Scene) -> None:
    core_checks.check_commit(scene, core_checks.routed(scene))


def test_transaction_aborts(scene: Scene) -> None:
    core_checks.check_abort(scene, core_checks.routed(scene))


def test_two_clients_with_equal_link_names(scene: Scene) -> None:
    core_checks.check_two_transactions(scene, core_checks.routed(scene))
