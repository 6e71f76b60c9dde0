"""Tools reach the management of a router whose link routes cover all other addresses."""

from __future__ import annotations

import pytest

from tests.simulation.full.routes import Scene
from waymesh_amqp.performatives import Terminus

EVERYTHING = "linkRoute {\npattern: #\ndirection: %s\nconnection: broker\n}\n"
DYNAMIC = Terminus("source", dynamic=True)


@pytest.fixture
def scene() -> Scene:
    return Scene("A", EVERYTHING % "in" + EVERYTHING % "out")


@pytest.mark.parametrize("address", ["$management", "_local/$management", "amqp:/$management"])
def test_replies_to_a_management_session_go_to_an_address_of_the_router(scene: Scene, address: str) -> None:
    scene.sender(address)
    replies = scene.receiver(source=DYNAMIC)
    assert replies.attach is not None
    assert replies.attach.source is not None
    assert str(replies.attach.source.address).startswith("amqp:/_topo/0/A/temp.")
    assert not scene.broker.links


def test_they_do_so_while_the_container_is_away(scene: Scene) -> None:
    scene.broker.drop()
    scene.sender("$management")
    assert scene.receiver(source=DYNAMIC).attach is not None


def test_other_sessions_get_their_dynamic_addresses_from_the_container(scene: Scene) -> None:
    scene.sender("$management")
    scene.client, scene.session = scene.connect("other")
    scene.sender("jobs")
    scene.receiver(source=DYNAMIC)
    attaches = [link.attach for link in scene.broker.links if link.attach and link.attach.role]
    assert [attach.source is not None and attach.source.dynamic for attach in attaches] == [True]
