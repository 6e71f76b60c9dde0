"""The link route of the model, with the broker behind it, which comes and goes."""

from __future__ import annotations

import itertools

from tests.kit import frames
from tests.kit.pump import Hub, core_of
from tests.model.broker import ROUTE, ROUTED, Broker, BrokerLink
from tests.model.client import CAPACITY, Consumer, Delivery
from waymesh_amqp.outcomes import ACCEPTED
from waymesh_amqp.types import Described


class Routes:
    """What the broker does, and the books of the messages to and from all of its connections."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.brokers: list[Broker] = []
        core_of(hub).linkroutes.add(ROUTE)

    def broker(self) -> Broker | None:
        """The broker, if it is connected."""
        return self.brokers[-1] if self.brokers and self.brokers[-1].alive else None

    def serves(self, address: str | None) -> bool:
        """Whether a client can attach to an address: a routed one needs the broker."""
        return address != ROUTED or self.broker() is not None

    def ended_by_router(self) -> bool:
        """Whether the router has ended the connection of the broker."""
        broker = self.broker()
        return broker is not None and bool(broker.peer.conn.done)

    def links(self, receives: bool | None) -> list[BrokerLink]:
        """Its links that receive or send; None: all."""
        broker = self.broker()
        found = [] if broker is None else broker.links
        return [link for link in found if link.alive and receives in (None, link.receives)]

    def unsettled(self) -> list[BrokerLink]:
        """Links with messages that the broker has not settled."""
        return [link for link in self.links(True) if link.unsettled]

    def got(self) -> list[bytes]:
        """All messages that arrived."""
        return [body for broker in self.brokers for link in broker.links for body in link.got]

    # ---- what it does
    def connect(self) -> None:
        self.brokers.append(Broker(self.hub))

    def leave(self, how: str) -> None:
        """Close the connection or break it, if it is connected."""
        broker = self.broker()
        if broker is not None:
            broker.leave(how)

    def read(self) -> bool:
        """Read and answer all that the router wrote. Whether there was something."""
        broker = self.broker()
        count = 0
        while broker is not None and broker.read():
            count += 1
        return count > 0

    def credit(self, which: int, amount: int) -> None:
        links = self.links(True)
        self.brokers[-1].give_credit(links[which % len(links)], amount)

    def settle(self, which: int, state: Described, every: bool) -> None:
        links = self.unsettled()
        link = links[which % len(links)]
        ids = sorted(link.unsettled)
        self.brokers[-1].settle(link, ids if every else [ids[which % len(ids)]], state)

    def send_or_go_on(self, which: int, settled: bool, size: int, parts: int) -> None:
        """Send one frame on a link, if it may: the next one of its delivery, or the first of another one."""
        links = self.links(False)
        link, broker = links[which % len(links)], self.brokers[-1]
        if link.open:
            broker.go_on(link)
        elif broker.may_begin(link):
            text = f"broker{len(self.brokers)}/{link.name}/{len(link.made)}".encode().ljust(size, b".")
            body = frames.message(text)
            edges = [len(body) * number // parts for number in range(parts + 1)]
            cut = [body[start:end] for start, end in itertools.pairwise(edges)]
            broker.send(link, body, link.mode == 1 or (link.mode == 2 and settled), cut)

    def detach(self, which: int) -> None:
        links = self.links(None)
        if links:
            self.brokers[-1].detach(links[which % len(links)])

    def rest(self) -> bool:
        """Do all that is left to do. Whether there was something."""
        busy = False
        for link in self.links(True):
            busy = busy or bool(link.unsettled) or link.part is not None or link.credit < CAPACITY
            self.brokers[-1].settle(link, sorted(link.unsettled), ACCEPTED)
            self.brokers[-1].give_credit(link, CAPACITY)
        for link in self.links(False):
            busy = busy or bool(link.open) or bool(link.sent)
            self.brokers[-1].go_on(link)
        return busy

    # ---- the books
    def check_order(self, sent: list[bytes], consumers: list[Consumer]) -> None:
        """Nothing came twice, and each link keeps the order. `sent`: by clients, `consumers`: those of the broker's
        messages."""
        assert len(self.got()) == len(set(self.got()))
        for link in (link for broker in self.brokers for link in broker.links):
            assert link.got == [body for body in sent if body in link.got]
        made = [body for broker in self.brokers for link in broker.links for body in link.made]
        for consumer in consumers:
            assert consumer.got == [body for body in made if body in consumer.got]

    def check(self, d: Delivery) -> bool:
        """What the broker got of a client's message, and what the client was told of it. Always true."""
        there = d.body in self.got()
        if d.aborted:
            assert not there
        elif d.outcome is not None and d.outcome.descriptor == ACCEPTED.descriptor:
            assert any(d.body in broker.accepted for broker in self.brokers)
        elif d.producer.alive and d.settled:
            assert there
        return True
