"""Autolinks to a container that ends the whole session when it refuses a link, as RabbitMQ does."""

from __future__ import annotations

from typing import Any

from tests.simulation.full.containers import Broker, PartyLink
from tests.simulation.full.network import Network, SimRouter
from waymesh_amqp.performatives import Attach

AUTO_LINK = "autoLink {{\naddress: {}\ndirection: in\nconnection: broker\n}}\n"


class Abrupt(Broker):
    """`refuse`: for these addresses the session ends."""

    def answer(self, party: PartyLink, attach: Attach) -> None:
        if party.address in self.refuse:
            party.link.session.end(*self.refuse[party.address])
        else:
            super().answer(party, attach)


def states(router: SimRouter) -> list[tuple[str, Any]]:
    adapter = router.router.agent.adapters["router.config.autoLink"]
    return [(row["operStatus"], row["lastError"]) for row in adapter.rows(router.world.now)]


def test_the_other_links_of_the_session_are_lost_once() -> None:
    network = Network()
    router = network.router("A", AUTO_LINK.format("good") + AUTO_LINK.format("bad"))
    broker = Abrupt(network)
    broker.refuse["bad"] = ("amqp:not-found", "no queue bad")
    broker.connector(router)
    network.start()
    halfway = [("active", None), ("failed", "no queue bad")]
    network.until(lambda: states(router) == halfway, 5.0)
    attaches = len(broker.of("good", is_sender=True))
    network.run(30.0)
    assert states(router) == halfway
    assert len(broker.of("good", is_sender=True)) == attaches
    del broker.refuse["bad"]
    network.until(lambda: states(router) == [("active", None)] * 2, 40.0)
