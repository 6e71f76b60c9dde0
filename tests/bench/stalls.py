"""Floods by clients that stop in the middle, read nothing, or leave messages to others: what a router keeps for them.

They need listeners for edge routers, containers and WebSockets, see `stall_sections`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from tests.bench.attacks import SASL_HEADER, SECURED, crowd, crowd_that_sends, silent
from tests.bench.errors import BenchError
from tests.bench.floods import SETTLE_S, Span
from tests.bench.rawclient import ATTACH, DETACH, FLOW, RawClient
from tests.bench.secured import READ_BYTES, TlsPort, connect, read_until
from tests.kit import frames
from tests.kit.frames import Seen, read_frames
from tests.kit.ports import free_port
from tests.unit.core.edge_peer import DOWN, PROPERTIES, UP, downlink
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.performatives import Attach, Begin, Open, SaslInit, encode_frame

EXCHANGE_S: Final = 10.0
STALLED_S: Final = 1.0
"""A router that takes nothing for so long waits until its client reads."""
UNREAD: Final = 12
ECHOES_A_WRITE: Final = 2_000
ECHOES: Final = 400_000
REQUESTS: Final = 30
REQUEST_OCTETS: Final = 800_000
LARGEST: Final = 16_000
"""Octets of a fragment: they fit into a frame of the size that the router takes by default."""
GONE: Final = 50
MESSAGES: Final = 250
"""As many as the router gives credit for on a link."""
MESSAGE_OCTETS: Final = 4_096
COPIES: Final = 100
EDGES: Final = 100
EDGE_MESSAGES: Final = 100
WITHOUT_CREDIT: Final = 200_000
A_WRITE: Final = 1_000
PINGERS: Final = 10
PINGS: Final = 100_000
PING: Final = b"\x89\x80mask"
"""Without content. Source: RFC 6455, 5.2."""
UPGRADE: Final = (
    b"GET /amqp HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: amqp\r\n\r\n"
)
BROKER: Final = "flooded-broker"


def _after_sasl(port: int, part: int) -> Span:
    """Connections that stop after SASL."""
    login = SASL_HEADER + encode_frame(0, SaslInit(mechanism="ANONYMOUS")) + frames.AMQP
    return crowd_that_sends(port, silent(port, part), login)


def _unread(port: int, part: int) -> Span:
    """Clients that ask for flows and read none, until the router takes nothing more from them."""
    some = frames.flow(echo=True) * ECHOES_A_WRITE
    begun = time.monotonic()
    with crowd(port, UNREAD) as streams:
        for number, each in enumerate(streams):
            each.settimeout(STALLED_S)
            with contextlib.suppress(OSError):
                each.sendall(frames.AMQP + frames.open_(container_id=f"unread-{number}") + frames.begin())
                for _ in range(ECHOES // part // ECHOES_A_WRITE):
                    each.sendall(some)
        time.sleep(SETTLE_S)
    return begun, time.monotonic()


def _requests(port: int, part: int) -> Span:
    """Management requests that never end."""
    begun = time.monotonic()
    with RawClient(port, "requests") as client, contextlib.suppress(BenchError):
        count = max(2, REQUESTS // part)
        for handle in range(count):
            client.send(frames.attach_sender(f"out{handle}", handle, address="$management"))
            client.wait(FLOW, handle + 1)
            client.send(frames.transfer(handle, frames.message(bytes(LARGEST)), handle=handle, more=True))
            for _ in range(REQUEST_OCTETS // LARGEST):
                client.send(frames.transfer(None, bytes(LARGEST), handle=handle, more=True))
        time.sleep(SETTLE_S)
    time.sleep(SETTLE_S)
    return begun, time.monotonic()


@contextlib.contextmanager
def _consumers(port: int, address: str, count: int = 1) -> Iterator[None]:
    """Receivers without credit."""
    with RawClient(port, "consumers") as client:
        for number in range(count):
            client.send(frames.attach_receiver(f"in{number}", number, address=address))
        client.wait(ATTACH, count)
        yield


def _gone(port: int, part: int) -> Span:
    """Clients whose messages wait when they are gone."""
    body = frames.message(bytes(MESSAGE_OCTETS))
    begun = time.monotonic()
    with _consumers(port, "left"):
        for number in range(GONE // part):
            with contextlib.suppress(BenchError), RawClient(port, f"gone-{number}") as client:
                client.send(frames.attach_sender("out", 0, address="left"))
                client.wait(FLOW, 1)
                client.send(b"".join(frames.transfer(n, body, settled=True) for n in range(MESSAGES)) + frames.close())
                client.wait_closed()
        time.sleep(SETTLE_S)
    time.sleep(SETTLE_S)
    return begun, time.monotonic()


def _copies(port: int, part: int) -> Span:
    """Multicast messages, the copies of which wait for consumers without credit."""
    body = frames.message(bytes(MESSAGE_OCTETS))
    begun = time.monotonic()
    with _consumers(port, "multicast.waits", COPIES), contextlib.suppress(BenchError), RawClient(port, "copies") as one:
        one.send(frames.attach_sender("out", 0, address="multicast.waits"))
        one.wait(FLOW, 1)
        one.send(b"".join(frames.transfer(n, body) for n in range(MESSAGES // part)))
        time.sleep(SETTLE_S)
    time.sleep(SETTLE_S)
    return begun, time.monotonic()


def _edges(edges: int, port: int, part: int) -> Span:
    """Messages of many edge routers, which wait for a consumer without credit."""
    payload = encode_message(Message(to="stalled", body=b"x"))
    begun = time.monotonic()
    with _consumers(port, "stalled"), contextlib.ExitStack() as stack:
        for number in range(EDGES // part):
            client = stack.enter_context(RawClient(edges, f"edge-{number}", properties=PROPERTIES))
            client.send(frames.attach_sender("up", UP, address=None))
            client.send(frames.attach_receiver("down", DOWN, **downlink(f"edge-{number}")))
            client.wait(FLOW, 1)
            client.send(b"".join(frames.transfer(n, payload, handle=UP) for n in range(EDGE_MESSAGES)))
        time.sleep(SETTLE_S)
    time.sleep(SETTLE_S)
    return begun, time.monotonic()


class _Broker:
    """A container that takes links and gives no credit, in a thread, until its connection ends."""

    def __init__(self, port: int) -> None:
        self._stream = connect(port, EXCHANGE_S)
        self._known = threading.Event()
        self._stream.sendall(frames.AMQP + frames.open_(container_id=BROKER))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        if not self._known.wait(EXCHANGE_S):
            raise BenchError("the router did not open the connection of a container")

    def _serve(self) -> None:
        rest = b""
        with contextlib.suppress(OSError):
            while data := self._stream.recv(READ_BYTES):
                seen, rest = read_frames(rest + data)
                for frame in seen:
                    if isinstance(frame, Seen):
                        self._stream.sendall(self._answer(frame))

    def _answer(self, seen: Seen) -> bytes:
        performative, channel = seen.performative, seen.channel
        if isinstance(performative, Open):
            self._known.set()
        elif isinstance(performative, Begin):
            return frames.begin(channel, remote_channel=channel)
        elif isinstance(performative, Attach):
            name, handle = performative.name, performative.handle
            answer = Attach(name, handle, role=True, source=performative.source, target=performative.target)
            return encode_frame(channel, answer)
        return b""

    def end(self) -> None:
        """Ask the router for the end of the connection, and wait for it."""
        with contextlib.suppress(OSError):
            self._stream.sendall(frames.close())
        self._thread.join()
        self._stream.close()


def _no_credit(containers: int, port: int, part: int) -> Span:
    """Transfers without octets and credit on a link route, until the router detaches the link."""
    some = [
        b"".join(frames.transfer(first + n, b"") for n in range(A_WRITE))
        for first in range(0, WITHOUT_CREDIT // part, A_WRITE)
    ]
    begun = time.monotonic()
    broker = _Broker(containers)
    try:
        with RawClient(port, "no-credit") as client:
            client.send(frames.attach_sender("out", 0, address="routed.x"))
            client.wait(ATTACH, 1)
            for each in some:
                client.send(each)
            client.wait(DETACH, 1)
    finally:
        broker.end()
    return begun, time.monotonic()


def _pings(web: int, port: int, part: int) -> Span:
    """Pings without content in WebSockets that do nothing else, until the router ends them."""
    begun = time.monotonic()
    with crowd(web, PINGERS) as streams:
        for each in streams:
            each.sendall(UPGRADE)
            read_until(each, b"\r\n\r\n")
            with contextlib.suppress(OSError):
                for _ in range(PINGS // part // A_WRITE):
                    each.sendall(PING * A_WRITE)
        time.sleep(SETTLE_S)
    return begun, time.monotonic()


@dataclass(frozen=True)
class Doors:
    """Ports of the listeners that these floods need."""

    web: int
    edges: int
    containers: int


def doors(over_tls: bool) -> Doors:
    """Free ports."""
    ports = [free_port() for _ in range(3)]
    return Doors(*(TlsPort(port) for port in ports) if over_tls else ports)


def stalls_of(at: Doors) -> Mapping[str, Callable[[int, int], Span]]:
    """All of them, on a router with `stall_sections`."""
    return {
        "after-sasl": _after_sasl,
        "unread": _unread,
        "requests": _requests,
        "gone": _gone,
        "copies": _copies,
        "edges": partial(_edges, at.edges),
        "no-credit": partial(_no_credit, at.containers),
        "pings": partial(_pings, at.web),
    }


def stall_sections(at: Doors) -> Sequence[tuple[str, Mapping[str, object]]]:
    """Listeners at these ports, with TLS where they say so, and a link route."""
    local = {"host": "127.0.0.1", "saslMechanisms": "ANONYMOUS", "authenticatePeer": "no"}
    roles: list[tuple[str, int, Mapping[str, object]]] = [
        ("web", at.web, {"role": "normal", "http": "yes"}),
        ("edges", at.edges, {"role": "edge"}),
        ("containers", at.containers, {"role": "route-container"}),
    ]
    sections: list[tuple[str, Mapping[str, object]]] = []
    for name, port, more in roles:
        secured = SECURED if isinstance(port, TlsPort) else {}
        sections.append(("listener", {**local, "name": name, "port": port, **secured, **more}))
    return [*sections, ("linkRoute", {"prefix": "routed", "direction": "in", "containerId": BROKER})]
