"""Pre-settled messages come while a queue is sent on in portions: none is dropped, as its consumers have credit."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.frames import Seen
from tests.kit.groups import SETTING, message
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.unit.core.test_core_exchanges import binding, entity
from waymesh_amqp.performatives import Transfer
from waymesh_router.core.core import Core
from waymesh_router.core.model import Address

SENDERS = 8
A_TIME = 200
"""Messages of a sender at a time: fewer than its credit."""
TURNS = 12
AT_FIRST = SENDERS * A_TIME
"""Messages that wait, unsettled, before there is credit: more than a portion, and more than pre-settled ones may be."""
ALL = (TURNS + 1) * AT_FIRST
"""All messages."""


class Scene:
    """Consumers without credit, for which messages wait."""

    def __init__(self, consumers: int, group: str | None = None, distribution: str = "balanced") -> None:
        self.hub: Hub = core_hub()
        self.core: Core = core_of(self.hub)
        setting = {"distribution": distribution, "messageGroups": group is not None}
        self.core.address_table.add_pattern(SETTING | setting)
        self.group = group
        self.consumers = [self._peer(frames.attach_receiver(address="q")) for _ in range(consumers)]
        self.senders = self.clients("q")
        self.sent = 0
        self.send(False)

    def _peer(self, attach: bytes) -> Peer:
        peer = self.hub.peer().open().begin()
        peer.send(attach)
        return peer

    def clients(self, address: str) -> list[Peer]:
        """Clients that send to an address."""
        return [self._peer(frames.attach_sender(address=address)) for _ in range(SENDERS)]

    def send(self, settled: bool) -> None:
        """Each sender sends as much as it can."""
        for sender in self.senders:
            numbers = range(self.sent, self.sent + A_TIME)
            sender.end.feed(b"".join(frames.transfer(n, message(self.group, n), settled=settled) for n in numbers))
        self.sent += A_TIME
        self.hub.turn()

    def give(self, credit: int = ALL, drain: bool = False) -> None:
        """All consumers issue credit."""
        for peer in self.consumers:
            peer.end.feed(frames.credit(credit, incoming_window=ALL, drain=drain))

    def portion(self) -> None:
        """The next turn of the event loop."""
        if self.core.expiry.busy:
            self.core.credit.end_expired()
        self.hub.turn()

    def rest(self) -> None:
        """All other turns."""
        while self.core.expiry.busy:
            self.portion()

    def got(self) -> int:
        """Number of messages that consumers got."""
        seen = [f for peer in self.consumers for f in peer.frames() if isinstance(f, Seen)]
        return len([f for f in seen if isinstance(f.performative, Transfer)])

    def waiting(self) -> int:
        """Number of messages that wait."""
        address: Address = self.core.addresses["M0q"]
        count: int = sum(link.undelivered() for link in address.consumers)
        return count + len(address.pending or ())


SCENES = {
    "one": lambda: Scene(1),
    "several": lambda: Scene(3),
    "closest": lambda: Scene(3, distribution="closest"),
    "group": lambda: Scene(2, "a"),
}


@pytest.fixture(params=SCENES)
def scene(request: pytest.FixtureRequest) -> Scene:
    return SCENES[request.param]()


def check_all_come(scene: Scene) -> None:
    """Consumers have credit: they get all that comes, and what waits does not grow."""
    scene.give()
    assert 0 < scene.waiting() < AT_FIRST
    for _ in range(TURNS):
        scene.send(True)
        scene.portion()
        assert scene.waiting() <= 2 * AT_FIRST
    scene.rest()
    assert scene.core.counters.dropped_presettled == 0
    assert scene.got() == ALL
    assert scene.core.budget.kept == 0


def test_consumers_with_credit_get_all_that_comes_while_a_portion_is_under_way(scene: Scene) -> None:
    check_all_come(scene)


def test_they_get_the_copies_of_an_exchange() -> None:
    scene = Scene(1)
    scene.core.exchanges.add(entity())
    scene.core.exchanges.bind(binding(key="s", hop="q"))
    scene.senders = scene.clients("news")
    scene.sent = 0
    check_all_come(scene)


def test_when_their_credit_is_used_up_messages_are_dropped(scene: Scene) -> None:
    scene.give(2 * AT_FIRST)
    for _ in range(TURNS):
        scene.send(True)
        scene.portion()
        assert scene.waiting() <= 2 * AT_FIRST
    scene.rest()
    dropped = scene.core.counters.dropped_presettled
    assert dropped > 0
    assert scene.got() + scene.waiting() + dropped == ALL


def test_consumers_that_wait_for_their_turn_are_counted_for_their_address() -> None:
    """All of them drain, and are told when nothing more comes."""
    scene = Scene(3)
    scene.give(drain=True)
    expiry = scene.core.expiry
    assert list(expiry.of_address.values()) == [len(expiry.links)] == [3]
    scene.rest()
    assert not expiry.links
    assert not expiry.of_address
