"""A router's core with many of a thing, and an event that concerns all of them: which turn is the longest?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final

from tests.kit import frames
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.settings import ConnectionSettings
from waymesh_router.core.core import Core
from waymesh_router.core.link_kinds import BALANCED
from waymesh_router.memory.relief import MemoryRelief
from waymesh_router.ticks import LongWork

TURN_BUDGET: Final = 256
"""As in runtime/transport/connection_io.py."""
MOST: Final = 1 << 30
SETTINGS: Final = ConnectionSettings("engine", links_at_once=16, window=MOST, max_links=MOST)
SOME: Final = 250
EXCESS_BYTES: Final = 20 << 20
"""More than the budgets allow beyond their limits."""
LINKS_A_SESSION: Final = 50_000
"""Fewer than handle-max."""


def _no_line(_module: str, _level: str, _text: str, _event: object = None) -> None:
    """A log that nobody reads."""


def drop(_data: bytes) -> None:
    """Output that nobody looks at."""


class Scene:
    """A core and its peers, which may send as much as they want and whose output is dropped."""

    def __init__(self, hub: Hub | None = None) -> None:
        self.hub: Hub = hub or core_hub()
        self.core: Core = core_of(self.hub)
        self.core.budget.set_limits(MOST, MOST, MOST)
        self._input: list[tuple[Peer, bytes]] = []
        host: Any = SimpleNamespace(internal_error=_raise)
        self._long_work = LongWork(self.core, host, SimpleNamespace(busy=False))  # type: ignore[arg-type]

    def peer(self) -> Peer:
        """A peer with a session."""
        peer = self.hub.peer(SETTINGS).open().begin()
        peer.conn.link_capacity = MOST
        peer.end.on_bytes = drop
        return peer

    def receivers(self, count: int, address: Callable[[int], str], credit: int = 0) -> Peer:
        """A peer with this many receivers."""
        peer = self.peer()
        for number in range(count):
            channel, handle = self._place(peer, number)
            name = f"r{number}"
            peer.end.feed(frames.attach_receiver(name, handle, channel=channel, address=address(number)))
            if credit:
                peer.end.feed(frames.credit(credit, handle, channel=channel, incoming_window=MOST))
            self.now_and_then(number)
        self.hub.turn()
        assert peer.conn.links == count
        return peer

    def senders(self, count: int, address: Callable[[int], str]) -> Peer:
        """A peer with this many senders."""
        peer = self.peer()
        for number in range(count):
            channel, handle = self._place(peer, number)
            peer.end.feed(frames.attach_sender(f"s{number}", handle, channel=channel, address=address(number)))
            self.now_and_then(number)
        self.hub.turn()
        assert peer.conn.links == count
        return peer

    def _place(self, peer: Peer, number: int) -> tuple[int, int]:
        """Channel and handle of a link; begins a session where one is full."""
        channel, handle = divmod(number, LINKS_A_SESSION)
        if channel and not handle:
            peer.end.feed(frames.begin(channel))
        return channel, handle

    def messages(self, count: int) -> Peer:
        """A peer that sends this many unsettled messages to q."""
        peer = self.senders(1, lambda _: "q")
        for number in range(count):
            peer.end.feed(frames.transfer(number))
            self.now_and_then(number)
        self.hub.turn()
        return peer

    def now_and_then(self, number: int) -> None:
        """Write the output."""
        if number % SOME == 0:
            self.hub.turn()

    def send(self, peer: Peer, data: bytes) -> None:
        """Let a peer send something in the next turn."""
        self._input.append((peer, data))

    def turns(self, event: Callable[[], object]) -> Iterator[Callable[[], object]]:
        """The event and what follows, in turns of the event loop."""
        yield lambda: self._turn(event)
        core = self.core
        while self._input or core.ending or core.context.portions or core.expiry.busy:
            yield lambda: self._turn(self._read)

    def _turn(self, work: Callable[[], object]) -> None:
        work()
        self._long_work.run(0.0)
        if self.core.expiry.busy:
            self.core.credit.end_expired()
        self.hub.turn()

    def _read(self) -> None:
        some, self._input = self._input, []
        for peer, data in some:
            peer.conn.budget = TURN_BUDGET
            used = peer.conn.receive(memoryview(data), len(data))
            if used < len(data):
                self._input.append((peer, data[used:]))


@dataclass(frozen=True)
class Case:
    """`build` makes a scene with a number of things, and returns it with the event."""

    title: str
    build: Callable[[int], tuple[Scene, Callable[[], object]]]


def _raise(_where: str, error: Exception) -> None:
    raise error


def _known(count: int) -> Scene:
    """Addresses with consumers at another router."""
    scene = Scene()
    scene.core.remote_routers.node_up("B")
    for number in range(count):
        scene.core.remote_routers.add_consumers("B", f"M0a/{number}", BALANCED)
    return scene


def _entity(prefix: str, distribution: str = "multicast") -> dict[str, Any]:
    phases = {"waypoint": False, "ingressPhase": None, "egressPhase": None}
    return {"pattern": None, "prefix": prefix, "distribution": distribution, **phases}


def _entity_created(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = _known(count)
    return scene, lambda: scene.core.address_table.add_pattern(_entity("a"))


def _paths(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = _known(count)
    return scene, scene.core.remote_routers.update_paths


def _paths_of_senders(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = _known(count)
    scene.senders(count, "a/{}".format)
    return scene, scene.core.remote_routers.update_paths


def _router_restarts(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = _known(count)
    return scene, lambda: scene.core.remote_routers.flush_consumers("B")


def _router_lost(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = _known(count)

    def lose() -> None:
        scene.core.remote_routers.flush_consumers("B")
        scene.core.remote_routers.node_down("B")

    return scene, lose


def _routers(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = Scene()
    for number in range(count):
        scene.core.remote_routers.node_up(f"router-{number}")

    def lose() -> None:
        scene.core.remote_routers.node_down("router-0")
        scene.core.remote_routers.update_paths()

    return scene, lose


def _links_close(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = Scene()
    peer = scene.receivers(count, "a/{}".format)
    return scene, lambda: scene.send(peer, frames.close())


def _links_lost(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = Scene()
    peer = scene.senders(count, "a/{}".format)
    return scene, lambda: peer.conn.eof("killed")


def _session_ends(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = Scene()
    peer = scene.receivers(count, "a/{}".format)
    return scene, lambda: scene.send(peer, frames.end())


def _credit_given(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = Scene()
    scene.senders(count, lambda _: "q")
    peer = scene.peer()
    return scene, lambda: scene.send(peer, frames.attach_receiver(address="q"))


def _credit_taken(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = Scene()
    peer = scene.receivers(1, lambda _: "q")
    scene.senders(count, lambda _: "q")
    return scene, lambda: scene.send(peer, frames.detach())


def _consumers_message(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = Scene()
    scene.receivers(count, lambda _: "q")
    peer = scene.messages(0)
    return scene, lambda: scene.send(peer, frames.transfer())


def _consumers_leave(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = Scene()
    peer = scene.receivers(count, lambda _: "q")
    channel, handle = divmod(count - 1, LINKS_A_SESSION)
    return scene, lambda: scene.send(peer, frames.detach(handle, channel=channel))


def _consumers_copies(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = Scene()
    scene.core.address_table.add_pattern(_entity("q"))
    scene.receivers(count, lambda _: "q", credit=10)
    peer = scene.messages(0)
    return scene, lambda: scene.send(peer, frames.transfer())


def _unsettled(count: int) -> tuple[Scene, Peer, Peer]:
    scene = Scene()
    consumer = scene.receivers(1, lambda _: "q", credit=MOST)
    return scene, consumer, scene.messages(count)


def _settled(count: int) -> tuple[Scene, Callable[[], object]]:
    scene, consumer, _ = _unsettled(count)
    return scene, lambda: scene.send(consumer, frames.disposition(0, last=(1 << 31) - 1))


def _settled_exactly(count: int) -> tuple[Scene, Callable[[], object]]:
    scene, consumer, _ = _unsettled(count)
    return scene, lambda: scene.send(consumer, frames.disposition(0, last=count - 1))


def _settled_by_sender(count: int) -> tuple[Scene, Callable[[], object]]:
    scene, _, producer = _unsettled(count)
    data = frames.disposition(0, role=frames.SENDER, last=count - 1, state=None)
    return scene, lambda: scene.send(producer, data)


def _unsettled_lost(count: int) -> tuple[Scene, Callable[[], object]]:
    scene, consumer, _ = _unsettled(count)
    return scene, lambda: consumer.conn.eof("killed")


def _unsettled_senders_lost(count: int) -> tuple[Scene, Callable[[], object]]:
    scene, _, producer = _unsettled(count)
    return scene, lambda: producer.conn.eof("killed")


def _ids_wrapped(count: int) -> tuple[Scene, Callable[[], object]]:
    scene, consumer, producer = _unsettled(count)
    (session,) = consumer.conn.sessions.values()
    session.next_delivery_id = 0
    return scene, lambda: scene.send(producer, frames.transfer(count))


def _excess(count: int) -> tuple[Scene, Callable[[], object]]:
    """As many addresses as messages, which wait at one of them and are as long as the budgets need to be exceeded."""
    scene = Scene()
    scene.receivers(count, "a/{}".format)
    scene.receivers(1, lambda _: "q")
    sender = scene.messages(0)
    for number in range(count):
        sender.end.feed(frames.transfer(number, frames.message(bytes(EXCESS_BYTES // count))))
        scene.now_and_then(number)
    relief = MemoryRelief(scene.core, _no_line)
    scene.core.budget.set_limits(1, 1, 1)
    return scene, lambda: relief.end_excess(1.0)


def _waiting(count: int) -> tuple[Scene, Peer, Peer]:
    scene = Scene()
    consumer = scene.receivers(1, lambda _: "q")
    return scene, consumer, scene.messages(count)


def _waiting_sent(count: int) -> tuple[Scene, Callable[[], object]]:
    scene, consumer, _ = _waiting(count)
    return scene, lambda: scene.send(consumer, frames.credit(count, incoming_window=MOST))


def _waiting_released(count: int) -> tuple[Scene, Callable[[], object]]:
    scene, consumer, _ = _waiting(count)
    return scene, lambda: scene.send(consumer, frames.detach())


def _waiting_senders_lost(count: int) -> tuple[Scene, Callable[[], object]]:
    scene, _, producer = _waiting(count)
    return scene, lambda: producer.conn.eof("killed")


def _copies_waiting(count: int, more: bool = False) -> tuple[Scene, Peer, Peer]:
    """A consumer of a multicast address for which copies wait, and their sender; `more`: an incomplete one is among
    the first."""
    scene = Scene()
    scene.core.address_table.add_pattern(_entity("q"))
    consumer = scene.receivers(1, lambda _: "q")
    aborting = scene.messages(0)
    if more:
        aborting.end.feed(frames.transfer(more=True))
    scene.messages(count)
    return scene, consumer, aborting


def _copies_lost(count: int) -> tuple[Scene, Callable[[], object]]:
    scene, consumer, _ = _copies_waiting(count)
    return scene, lambda: consumer.conn.eof("killed")


def _copies_sent(count: int) -> tuple[Scene, Callable[[], object]]:
    scene, consumer, _ = _copies_waiting(count)
    return scene, lambda: scene.send(consumer, frames.credit(count, incoming_window=MOST))


def _copy_aborted(count: int) -> tuple[Scene, Callable[[], object]]:
    scene, _, aborting = _copies_waiting(count, True)
    return scene, lambda: scene.send(aborting, frames.transfer(None, aborted=True))


def _writable(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = Scene()
    peer = scene.receivers(count, "a/{}".format, credit=10)
    return scene, lambda: scene.core.on_writable(peer.conn)


CASES: Final[Mapping[str, Case]] = {
    "entity": Case("an `address` entity is created; addresses in use", _entity_created),
    "paths": Case("paths change; addresses of another router", _paths),
    "paths-senders": Case("paths change; addresses of another router, each with a sender here", _paths_of_senders),
    "router-restarts": Case("another router restarts; its addresses", _router_restarts),
    "router-lost": Case("another router is lost; its addresses", _router_lost),
    "routers": Case("a router is lost and paths change; remote routers", _routers),
    "close": Case("a connection closes; its receivers", _links_close),
    "lost": Case("a connection is lost; its senders", _links_lost),
    "session": Case("a session ends; its receivers", _session_ends),
    "credit": Case("an address gets its first consumer; its senders", _credit_given),
    "no-credit": Case("an address loses its last consumer; its senders", _credit_taken),
    "consumers": Case("a message; consumers without credit of its address", _consumers_message),
    "consumer-leaves": Case("a consumer leaves; others of its address", _consumers_leave),
    "copies": Case("a multicast message; its consumers", _consumers_copies),
    "settled-all": Case("a disposition of 2³¹ ids; unsettled deliveries", _settled),
    "settled": Case("a disposition of just these; unsettled deliveries", _settled_exactly),
    "settled-sender": Case("their sender settles them; unsettled deliveries", _settled_by_sender),
    "consumer-lost": Case("their consumer is lost; unsettled deliveries", _unsettled_lost),
    "sender-lost": Case("their sender is lost; unsettled deliveries", _unsettled_senders_lost),
    "waiting-sent": Case("a consumer issues credit; waiting deliveries", _waiting_sent),
    "waiting-released": Case("the only consumer leaves; waiting deliveries", _waiting_released),
    "copies-lost": Case("their consumer is lost; waiting copies of multicast messages", _copies_lost),
    "copies-sent": Case("their consumer issues credit; waiting copies of multicast messages", _copies_sent),
    "copy-aborted": Case("a multicast message is aborted; waiting copies behind it", _copy_aborted),
    "ids-wrapped": Case("a delivery after 4 billion others; unsettled ones with the next ids", _ids_wrapped),
    "excess": Case("waiting messages exceed all budgets; as many links with addresses", _excess),
    "writable": Case("the output of a connection has room again; its receivers", _writable),
    "waiting-sender-lost": Case("their sender is lost; waiting deliveries", _waiting_senders_lost),
}
