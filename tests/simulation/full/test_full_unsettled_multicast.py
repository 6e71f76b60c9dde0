"""Unsettled deliveries to multicast addresses: settled end to end, or rejected (`allowUnsettledMulticast`)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, Party
from tests.simulation.full.network import Network
from waymesh_amqp.types import decode

NEWS = "address {\nprefix: news\ndistribution: multicast\n}\n"


class Scene:
    """A router, and a client with a consumer and a producer of a multicast address."""

    def __init__(self, settings: str) -> None:
        self.network = Network()
        self.network.router("A", NEWS).settings = settings
        self.network.start()
        self.party = Party(self.network, "client")
        connection = self.party.dial(self.network.routers["A"])
        self.network.run(0.1)
        session = connection.open_session()
        self.consumer = self.party.receiver(session, "news", 10)
        self.producer = self.party.sender(session, "news")
        self.network.run(0.1)

    def send(self, body: bytes, settled: bool = False) -> None:
        self.party.send(self.producer, message(body), settled=settled)
        self.network.run(0.1)

    @property
    def bodies(self) -> list[bytes]:
        return [got.data for got in self.consumer.got]


@pytest.mark.parametrize("settings", ["", "allowUnsettledMulticast: yes\n"])
def test_the_producer_gets_the_outcome_of_the_consumer(settings: str) -> None:
    scene = Scene(settings)
    scene.send(b"unsettled")
    assert scene.producer.outcomes == []
    scene.party.settle(scene.consumer.got[0], ACCEPTED)
    scene.network.run(0.1)
    assert scene.producer.outcomes == [(True, ACCEPTED)]


def test_unsettled_deliveries_are_rejected_where_they_are_not_allowed() -> None:
    scene = Scene("allowUnsettledMulticast: no\n")
    scene.send(b"unsettled")
    scene.send(b"pre-settled", settled=True)
    ((settled, outcome),) = scene.producer.outcomes
    state: Any = decode(outcome)[0]
    assert settled
    assert state.value[0].value[:2] == ["qd:forbidden", "Deliveries to a multicast address must be pre-settled"]
    assert scene.bodies == [message(b"pre-settled")]
