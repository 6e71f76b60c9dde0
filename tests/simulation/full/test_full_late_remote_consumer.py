"""A delivery that waits at a router until a consumer attaches elsewhere, over a data link without credit."""

from __future__ import annotations

from tests.kit.frames import message
from tests.simulation.full.containers import Party, PartyLink
from tests.simulation.full.network import Network
from tests.simulation.full.oracle import faults
from waymesh_amqp.states import OPENED

CAPACITY = 2
LINK_BYTES = 4096


def give(party: Party, link: PartyLink, credit: int) -> None:
    """Credit for a receiver of the party."""
    link.link.capacity = credit
    link.link.grant()
    party.wake()


def test_it_goes_as_soon_as_the_data_link_has_credit_again() -> None:
    network = Network()
    network.router("A")
    network.router("B")
    network.cable("B", "A").extra = f"linkCapacity: {CAPACITY}\n"
    network.start()
    network.until(lambda: not faults(network), 1.0)
    here, there = Party(network, "here"), Party(network, "there")
    at_a, at_b = here.dial(network.routers["A"]), there.dial(network.routers["B"])
    network.until(lambda: at_a.state == at_b.state == OPENED, 1.0)
    session, far = at_a.open_session(), at_b.open_session()

    # What nobody takes at B uses up the credit of the data link: it is more than half of the bytes that may wait.
    network.routers["B"].core.budget.set_limits(1 << 20, 1 << 20, LINK_BYTES)
    slow = there.receiver(far, "slow", name="slow")
    filler = here.sender(session, "slow", name="filler")
    network.until(lambda: filler.link.credit > 0, 1.0)
    for _ in range(CAPACITY):
        here.send(filler, message(bytes(LINK_BYTES * 3 // 4)))
    network.run(0.1)

    # One delivery waits at A, whose own consumer gives no credit. Then comes one at B that does.
    here.receiver(session, "orders", name="idle")
    sender = here.sender(session, "orders", name="sender")
    network.until(lambda: sender.link.credit > 0, 1.0)
    here.send(sender, message(b"an order"))
    network.run(0.1)
    consumer = there.receiver(far, "orders", name="late")
    give(there, consumer, 10)
    network.run(0.5)
    assert not consumer.got, "the data link has no credit yet"

    give(there, slow, 10)
    network.until(lambda: len(slow.got) == CAPACITY and len(consumer.got) == 1, 1.0)
    assert consumer.got[0].data == message(b"an order")
