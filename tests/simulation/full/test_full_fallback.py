"""Fallback destinations. Routing chapter "Handling Undeliverable Messages for an Address"."""

from __future__ import annotations

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, Broker, Party
from tests.simulation.full.network import Network
from tests.simulation.full.oracle import faults
from waymesh_amqp.states import OPENED

ADDRESS = "address {\nprefix: my-address\nenableFallback: yes\n}\n"
LINKS = "".join(
    f"autoLink {{\naddress: my-address.2\ndirection: {direction}\nconnection: my-broker\nfallback: yes\n}}\n"
    for direction in ("out", "in")
)


@pytest.mark.parametrize("names", ["A", "AB"])
def test_handling_undeliverable_messages_for_an_address(names: str) -> None:
    network = Network()
    for name in names:
        network.router(name, ADDRESS + (LINKS if name == names[-1] else ""))
    if len(names) > 1:
        network.cable("A", "B")
    broker = Broker(network)
    broker.connector(network.routers[names[-1]], "my-broker")
    network.start()
    network.until(lambda: not faults(network) and len(broker.links) == 2, 2.0)
    network.run(0.2)
    client = Party(network, "client")
    conn = client.dial(network.routers["A"])
    network.until(lambda: conn.state == OPENED, 1.0)
    session = conn.open_session()
    sender = client.sender(session, "my-address.2")
    network.until(lambda: sender.link.credit > 0, 1.0)
    client.send(sender, message(b"stored"))
    network.until(lambda: sender.outcomes == [(True, ACCEPTED)], 1.0)
    assert list(broker.queues["my-address.2"]) == [message(b"stored")]
    assert not broker.states
    receiver = client.receiver(session, "my-address.2", credit=10)
    network.until(lambda: len(receiver.got) == 1, 1.0)
    client.settle(receiver.got[0])
    client.send(sender, message(b"direct"))
    network.until(lambda: len(receiver.got) == 2, 1.0)
    client.settle(receiver.got[1])
    network.run(0.1)
    assert [got.data for got in receiver.got] == [message(b"stored"), message(b"direct")]
    assert broker.states == [ACCEPTED]
    assert len(broker.links[0].got) == 1
    receiver.link.detach()
    client.wake()
    network.run(0.2)
    client.send(sender, message(b"again"))
    network.until(lambda: len(sender.outcomes) == 3, 1.0)
    assert list(broker.queues["my-address.2"]) == [message(b"again")]
    redirected = [
        row["deliveriesRedirectedToFallback"]
        for row in network.routers["A"].router.agent.adapters["router.address"].rows(network.now)
        if row["key"] == "M0my-address.2"
    ]
    assert redirected == [2]
