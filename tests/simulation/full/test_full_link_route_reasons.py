"""Clients of link routes get the error with which their container ended a connection or session."""

from __future__ import annotations

import pytest

from tests.simulation.full.routes import Scene
from waymesh_amqp.performatives import ErrorInfo


@pytest.fixture(params=["A", "ABC"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(request.param)


def test_the_reason_why_a_container_closes_its_connection_reaches_clients(scene: Scene) -> None:
    sender = scene.sender()
    (conn,) = scene.broker.conns
    conn.close_with(ErrorInfo("amqp:connection:forced", "the virtual host is going to be restarted"))
    scene.broker.wake()
    scene.until(lambda: sender.gone)
    assert sender.error == ErrorInfo(
        "qd:routed-link-lost",
        "Connectivity to the peer container was lost: the virtual host is going to be restarted",
        {"condition": "amqp:connection:forced", "description": "the virtual host is going to be restarted"},
    )


def test_the_reason_why_a_container_ends_a_session_reaches_clients(scene: Scene) -> None:
    sender = scene.sender()
    (seen,) = scene.broker.of("b2.queue")
    seen.link.session.end("amqp:resource-limit-exceeded", "too many producers")
    scene.broker.wake()
    scene.until(lambda: sender.gone)
    assert sender.error == ErrorInfo("amqp:resource-limit-exceeded", "too many producers")
