"""Fallback destinations. Routing chapter "Handling Undeliverable Messages for an Address"."""

from __future__ import annotations

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, Broker, Party
from tests.simulation.full.network import Network
from tests.simulation.full.oracle import faults
from waymesh_amqp.codec_values import Symbol
from waymesh_amqp.performatives import Terminus
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


def test_what_waits_in_thousands_is_redirected_before_what_comes_later() -> None:
    """More wait than a turn of the event loop redirects, and a producer sends in that turn."""
    network = Network()
    network.chunked = 0.0
    router = network.router("A", ADDRESS)
    network.start()
    party = Party(network, "client")
    conns = [party.dial(router) for _ in range(7)]
    network.until(lambda: all(conn.state == OPENED for conn in conns), 1.0)
    sessions = [conn.open_session() for conn in conns]
    slow = party.receiver(sessions[0], "my-address.2")
    source = Terminus("source", address="my-address.2", capabilities=[Symbol("qd.fallback")])
    fallback = party.receiver(sessions[0], "my-address.2", 10, "spare", source=source)
    *crowd, last = (party.sender(session, "my-address.2") for session in sessions[1:])
    network.until(lambda: last.link.credit > 0 and all(sender.link.credit > 0 for sender in crowd), 1.0)
    for sender in crowd:
        while sender.link.ready():
            party.send(sender, message(b"crowd"))
    network.run(0.1)
    sent = [message(b"%d" % number) for number in range(20)]
    for data in sent[:10]:
        party.send(last, data)
    network.run(0.1)
    waiting = router.core.addresses["M0my-address.2"].pending
    assert len(waiting) > 1100, "as many as a turn redirects, and more"
    slow.link.detach()
    for data in sent[10:]:
        party.send(last, data)

    settled = 0
    while settled < 250 * len(crowd) + len(sent):
        network.until(lambda: len(fallback.got) > settled, 1.0)  # noqa: B023 (called at once)
        for got in fallback.got[settled:]:
            party.settle(got)
        settled = len(fallback.got)
    assert [got.data for got in fallback.got if got.data in sent] == sent
