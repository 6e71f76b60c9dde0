"""Meshes with a router that knows neither demand nor links for long messages, as old ones: at each place, and any lost.

Work waits for workers behind the line, one message of 20 MB is under way across it, and another one is half-sent.
"""

from __future__ import annotations

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, Party, PartyLink
from tests.simulation.full.network import Network
from tests.simulation.full.test_full_fair_work import LINE
from tests.simulation.full.test_full_streams import begin, complete
from tests.simulation.full.workers import Shop
from waymesh_amqp.states import OPENED
from waymesh_amqp.transfer import IncomingTransfer

LONG = message(bytes(range(256)) * 80_000)
"""A message of 20 MB."""
RATE = 40e6
"""Octets a second of the cables: the long message takes half a second for each."""
HALF = bytes(20_000)
WORK = 300
PLACES = {"ingress": "A", "transit": "B", "egress": "C"}


class Taker(Party):
    """A consumer that counts octets, and keeps no parts but those of a whole delivery."""

    def __init__(self, network: Network, name: str) -> None:
        Party.__init__(self, network, name)
        self.octets = 0
        self.pieces: list[bytes] = []

    def on_transfer(self, link: object, transfer: IncomingTransfer) -> None:
        data = transfer.payload()
        self.octets += len(data)
        if transfer.first:
            self.pieces.clear()
        self.pieces.append(data)
        if not transfer.more:
            transfer.hold(b"".join(self.pieces))
            transfer.start, transfer.end, transfer.first = 0, sum(map(len, self.pieces)), True
            Party.on_transfer(self, link, transfer)

    def take(self, party: PartyLink, got: object) -> None:
        self.settle(party.got[-1])


class Line:
    """A – B – C. Work, a long message and a half-sent one go from A to C."""

    def __init__(self, old: str) -> None:
        self.shop = Shop("ABC", LINE, without_demand=old)
        self.network = self.shop.network
        self.routers = self.network.routers
        for name in old:
            self.routers[name].core.context.streaming = False
        for cable in self.network.cables:
            cable.rate = RATE
        self.work()
        self.taker, self.long_in = self.consumer("long")
        self.half_taker, self.half_in = self.consumer("half")
        self.network.run(0.5)
        self.client = self.shop.crowd.client(self.routers["A"])
        self.sender = self.shop.start(self.client, WORK)
        self.long, self.long_out = self.producer("long")
        self.half, self.half_out = self.producer("half")
        self.network.run(0.5)

    def work(self) -> None:
        """Workers behind the line."""
        for _ in range(2):
            self.shop.worker("C", 0.02, 5)

    def consumer(self, address: str) -> tuple[Taker, PartyLink]:
        taker = Taker(self.network, f"taker of {address}")
        conn = taker.dial(self.routers["C"])
        self.network.until(lambda: conn.state == OPENED, 1.0)
        return taker, taker.receiver(conn.open_session(), address, 10)

    def producer(self, address: str) -> tuple[Party, PartyLink]:
        party = Party(self.network, f"sender of {address}")
        conn = party.dial(self.routers["A"])
        self.network.until(lambda: conn.state == OPENED, 1.0)
        link = party.sender(conn.open_session(), address)
        self.network.until(lambda: link.link.credit > 0, 5.0)
        return party, link

    def begin(self) -> None:
        """Until a part of the long message has arrived, and half of the other one."""
        begin(self.half, self.half_out, HALF)
        self.long.send(self.long_out, LONG)
        self.network.until(lambda: self.taker.octets > len(LONG) // 4, 30.0, 0.01)
        assert self.taker.octets < len(LONG) * 3 // 4
        assert self.sender.left or self.sender.under_way

    def finish_half(self) -> None:
        if not self.half_out.gone:
            complete(self.half, self.half_out, HALF)

    def check_one(self, sent: PartyLink, taken: PartyLink, data_bytes: int, lost: bool) -> None:
        """One outcome unless its sender's connection is lost, and at most one copy, none without acceptance."""
        assert sent.gone == lost
        assert all(len(got.data) >= data_bytes for got in taken.got)
        assert len(taken.got) <= 1
        if not lost:
            assert len(sent.outcomes) == 1, sent.outcomes
            assert sent.outcomes[0][0]
            assert not (sent.outcomes[0][1] == ACCEPTED and not taken.got)


@pytest.mark.parametrize("place", PLACES)
def test_all_arrives_with_an_old_router(place: str) -> None:
    line = Line(PLACES[place])
    line.begin()
    line.finish_half()
    line.network.until(lambda: not (line.sender.left or line.sender.under_way), 60.0, 0.05)
    line.network.until(lambda: bool(line.long_out.outcomes and line.half_out.outcomes), 60.0, 0.05)
    assert line.long_out.outcomes == line.half_out.outcomes == [(True, ACCEPTED)]
    assert [got.data for got in line.long_in.got] == [LONG]
    assert len(line.half_in.got) == 1
    assert not line.shop.ledger.violations(faultless=True)
    line.network.run(12.0)
    assert all(router.core.budget.kept == 0 for router in line.routers.values())


@pytest.mark.parametrize("lost", PLACES)
@pytest.mark.parametrize("place", PLACES)
def test_a_lost_router_of_a_mesh_with_an_old_one_costs_only_its_clients(place: str, lost: str) -> None:
    """Each other delivery gets one outcome, nothing arrives twice, and nothing was accepted that did not arrive."""
    line = Line(PLACES[place])
    line.begin()
    router = line.routers[PLACES[lost]]
    router.crash()
    line.network.run(1.0)
    line.finish_half()
    router.start()
    if lost == "egress":
        line.network.run(2.0)
        line.work()
    if lost == "ingress":
        line.network.run(60.0)
    else:
        line.network.until(lambda: not (line.sender.left or line.sender.under_way), 120.0, 0.05)
        line.network.until(lambda: bool(line.long_out.outcomes and line.half_out.outcomes), 60.0, 0.05)
        assert sum(len(sent.outcomes) for sent in line.shop.ledger.sent) == WORK
    line.check_one(line.long_out, line.long_in, len(LONG), lost == "ingress")
    line.check_one(line.half_out, line.half_in, 2 * len(HALF), lost == "ingress")
    assert not line.shop.ledger.violations()
    line.network.run(12.0)
    assert all(router.core.budget.kept == 0 for router in line.routers.values())
