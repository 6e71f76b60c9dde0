"""Clients that request to be the only one with their container-id, at listeners that offer it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.full.containers import Party
from tests.simulation.full.network import Network
from waymesh_amqp.connection import Connection
from waymesh_amqp.types import Symbol, UInt
from waymesh_router.clients.connection_uniqueness import CAPABILITY, CLOSE_EXISTING, FAILED, POLICY

PORT = 31000
OFFERING = f"listener {{\nname: jms\nhost: 0.0.0.0\nport: {PORT}\nopenCapabilities: {CAPABILITY}\n}}\n"
TENANTS = PORT + 1
OFFERING += OFFERING.replace("jms", "tenants").replace(str(PORT), f"{TENANTS}\nmultiTenant: yes")
SOLE: dict[str, Any] = {"desired_capabilities": [Symbol(CAPABILITY)]}
REPLACING: dict[str, Any] = {**SOLE, "properties": {Symbol(POLICY): UInt(CLOSE_EXISTING)}}


class Scene:
    """A router with a listener that offers it, and one that does not."""

    def __init__(self) -> None:
        self.network = Network()
        self.router = self.network.router("A", OFFERING)
        self.network.start()

    def connect(self, said: dict[str, Any], name: str = "client", port: int | None = PORT) -> tuple[Party, Connection]:
        party = Party(self.network, name)
        party.said = said
        conn = party.dial(self.router, port)
        self.network.until(lambda: conn.remote is not None, 1.0)
        self.network.run(0.1)
        return party, conn


@pytest.fixture
def scene() -> Scene:
    return Scene()


def refused(conn: Connection) -> bool:
    if not conn.over:
        return False
    assert conn.error is not None
    assert conn.error.condition == "amqp:invalid-field"
    assert conn.error.info == {"invalid-field": "container-id"}
    assert conn.remote is not None
    assert isinstance(conn.remote.properties, dict)
    return conn.remote.properties.get(FAILED) is True


def test_a_second_connection_is_refused_and_welcome_when_the_first_is_gone(scene: Scene) -> None:
    party, first = scene.connect(SOLE)
    assert refused(scene.connect(SOLE)[1])
    assert not first.over
    party.drop()
    scene.network.run(0.1)
    assert not scene.connect(SOLE)[1].over


def test_a_second_connection_may_replace_the_first_one(scene: Scene) -> None:
    _, first = scene.connect(SOLE)
    _, second = scene.connect(REPLACING)
    assert first.over
    assert first.error is not None
    assert first.error.condition == "amqp:resource-locked"
    assert first.error.info == {"sole-connection-enforcement": True}
    assert not second.over
    assert refused(scene.connect(SOLE)[1])


@pytest.mark.parametrize(
    ("said", "name", "port"),
    [
        ({}, "client", PORT),
        (SOLE, "other", PORT),
        (SOLE, "client", None),
    ],
    ids=["does not ask", "other container", "not offered"],
)
def test_who_is_welcome_beside_it(scene: Scene, said: dict[str, Any], name: str, port: int | None) -> None:
    _, first = scene.connect(SOLE)
    _, second = scene.connect(said, name, port)
    assert not first.over
    assert not second.over


def test_tenants_have_container_ids_of_their_own(scene: Scene) -> None:
    _, first = scene.connect({**SOLE, "hostname": "a.example"}, port=TENANTS)
    for hostname in ("b.example", "c.example"):
        assert not scene.connect({**REPLACING, "hostname": hostname}, port=TENANTS)[1].over
    assert not first.over
    assert refused(scene.connect({**SOLE, "hostname": "a.example"}, port=TENANTS)[1])
