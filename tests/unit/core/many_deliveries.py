"""A core in memory with thousands of deliveries: each gets one outcome, whatever comes between the portions."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.kit import frames
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.performatives import Disposition

MANY = 2_000
MOST = 1 << 30
WIDE = {"incoming_window": MOST, "outgoing_window": MOST}


class Scene:
    """A consumer with two links at two addresses, and a producer with MANY unsettled deliveries to the first one."""

    def __init__(self) -> None:
        self.hub: Hub = core_hub()
        self.core = core_of(self.hub)
        self.core.budget.set_limits(MOST, MOST, MOST)
        self.consumer = self.peer()
        for handle, address in enumerate(("q", "other")):
            self.consumer.send(frames.attach_receiver(address, handle, address=address))
            self.consumer.send(frames.credit(MOST, handle, **WIDE))
        self.producer = self.peer()
        self.producer.send(frames.attach_sender())
        self.outcomes: dict[int, list[Any]] = {}
        self.send(range(MANY))

    def peer(self) -> Peer:
        peer = self.hub.peer().open()
        peer.conn.link_capacity = MOST
        return peer.begin(**WIDE)

    def send(self, ids: range) -> None:
        for number in ids:
            self.producer.end.feed(frames.transfer(number))
            if number % 100 == 0:
                self.look()
        self.look()

    def look(self) -> None:
        """Note the outcomes that the producer was sent."""
        for seen in self.producer.frames():
            one = seen.performative if isinstance(seen, Seen) else None
            if isinstance(one, Disposition):
                for number in range(one.first, (one.first if one.last is None else one.last) + 1):
                    self.outcomes.setdefault(number, []).append(one.state)

    def portion(self) -> None:
        self.core.context.portions.run()
        self.look()

    def finish(self) -> Counter[str]:
        """Do all portions; how often each outcome was sent, if each delivery has exactly one."""
        while self.core.context.portions:
            self.portion()
        assert sorted(self.outcomes) == list(range(MANY))
        assert {len(states) for states in self.outcomes.values()} == {1}
        assert self.rings() == (0, 0)
        return Counter(repr(states[0]) for states in self.outcomes.values())

    def rings(self) -> tuple[int, int]:
        """Deliveries that are unsettled at the consumer and at the producer."""
        out = [s.unsettled_out.count for s in self.consumer.conn.sessions.values()]
        into = [s.unsettled_in.count for s in self.producer.conn.sessions.values()]
        return sum(out), sum(into)
