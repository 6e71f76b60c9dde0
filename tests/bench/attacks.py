"""Scenario of attacks by many connections and by expensive frames: the delay of others meanwhile.

The ping-pong client is that of `floods`. A second one, at an idle router, shows the effect of the machine.
"""

from __future__ import annotations

import contextlib
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.bench.floods import SETTLE_S, Pinger, Span, idle_span, p99, portion
from tests.bench.machine import raise_file_limit
from tests.bench.rawclient import ATTACH, DETACH, DISPOSITION, FLOW, RawClient
from tests.bench.routers import RouterSpec, running
from tests.bench.scenarios import Bench, Scenario, need_start
from tests.bench.secured import Stream, TlsPort, connect, trusting
from tests.kit import frames
from tests.kit.certificates import Authority
from tests.kit.ports import free_port
from waymesh_amqp.codec_values import Symbol
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.performatives import SaslInit, encode_frame
from waymesh_amqp.sasl import make_line

CHURN: Final = 2_000
CHURN_A_SECOND: Final = 1_000
OPENS: Final = 2_000
SILENT: Final = 10_000
SILENT_OVER_TLS: Final = 5
"""Over TLS, a fifth as many."""
HELLOS: Final = 500
SHAKES: Final = 1_000
SHAKES_AT_ONCE: Final = 200
LOGINS: Final = 500
MAPS: Final = 2_000
ANNOTATED: Final = 5_000
GROWING: Final = 50
ANNOTATION_OCTETS: Final = 2 << 20
"""More than a delivery's annotations may have."""
OCTETS: Final = 200_000
FRAGMENTS: Final = 200_000
FLOWS: Final = 200_000
LARGE: Final = 15_000
"""Octets that fit into a frame of the size that the router takes by default."""
MOST_VALUES: Final = 900
"""In maps and lists of an attach that the router still takes."""
PER_WRITE: Final = 50
ENOUGH: Final = 2**31 - 1
EXCHANGE_S: Final = 10.0
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"

Attack = Callable[[int, int], Span]
"""On the router with this port; divided by the second number."""


@contextlib.contextmanager
def crowd(port: int, count: int) -> Iterator[list[Stream]]:
    """So many connections; all are closed at the end."""
    with contextlib.ExitStack() as stack:
        streams = []
        for _ in range(count):
            streams.append(connect(port, EXCHANGE_S))
            stack.callback(streams[-1].close)
        yield streams


def crowd_that_sends(port: int, count: int, data: bytes) -> Span:
    """So many connections that are made, then send `data`, then close; nothing is read."""
    begun = time.monotonic()
    with crowd(port, count) as sockets:
        for each in sockets:
            with contextlib.suppress(OSError):  # the router has ended it
                each.sendall(data)
        time.sleep(SETTLE_S)
    time.sleep(SETTLE_S)
    return begun, time.monotonic()


def _opening(name: str) -> bytes:
    return frames.AMQP + frames.open_(container_id=name) + frames.begin()


def _churn(port: int, part: int) -> Span:
    begun = time.monotonic()
    for n in range(CHURN // part):
        time.sleep(max(0.0, begun + n / CHURN_A_SECOND - time.monotonic()))
        with connect(port, EXCHANGE_S) as each, contextlib.suppress(OSError):
            each.sendall(_opening(f"churn-{n}"))
    return begun, time.monotonic()


def _opens(port: int, part: int) -> Span:
    return crowd_that_sends(port, OPENS // part, _opening("crowd"))


def _silent(port: int, part: int) -> Span:
    return crowd_that_sends(port, silent(port, part), b"A")


def silent(port: int, part: int) -> int:
    """How many connections stop before their open: a handshake of TLS takes the client here as long as the router."""
    return SILENT // part // (SILENT_OVER_TLS if isinstance(port, TlsPort) else 1)


def _client(context: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.MemoryBIO, bytes]:
    """A TLS client, its input, and its first message."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return client, incoming, outgoing.read()


def _hellos(tls: int, port: int, part: int) -> Span:
    """Handshakes that begin at once and go no further: the router answers with its certificate and signature."""
    _, _, hello = _client(trusting())
    return crowd_that_sends(tls, HELLOS // part, hello)


def _shakes(tls: int, port: int, part: int) -> Span:
    """The same, in waves: as many as a client can begin."""
    _, _, hello = _client(trusting())
    begun = time.monotonic()
    for _ in range(SHAKES // SHAKES_AT_ONCE // part + 1):
        with crowd(tls, SHAKES_AT_ONCE) as sockets:
            for each in sockets:
                each.sendall(hello)
            for each in sockets:
                each.recv(1)
    return begun, time.monotonic()


def _logins(passwords: int, port: int, part: int) -> Span:
    init = encode_frame(0, SaslInit("PLAIN", b"\0shop\0wrong"))
    begun = time.monotonic()
    with crowd(passwords, LOGINS // part) as sockets:
        for each in sockets:
            each.sendall(SASL_HEADER + init)
        for each in sockets:
            while each.recv(4096):  # the router refuses it, and closes
                pass
    return begun, time.monotonic()


def _nested(levels: int) -> Any:
    return [_nested(levels - 1)] if levels else 0


def _attaches(properties: Mapping[Any, Any], port: int, part: int) -> Span:
    """Attaches with these properties, each detached at once, on one handle."""
    one = frames.attach_receiver("r", 0, address="maps", properties=properties) + frames.detach(0)
    count = MAPS // part // PER_WRITE * PER_WRITE
    with RawClient(port, "maps") as client:
        begun = time.monotonic()
        for sent in range(0, count, PER_WRITE):
            client.send(one * PER_WRITE)
            client.wait(DETACH, sent + 1)
        client.wait(DETACH, count)
        ended = time.monotonic()
        client.send(frames.close())
        client.wait_closed()
    return begun, ended


@contextlib.contextmanager
def _pair(port: int, name: str) -> Iterator[RawClient]:
    """A sender to an address, with credit. A receiver in a thread reads whatever comes, until the sender has ended."""
    with RawClient(port, f"{name}-in") as receiver, RawClient(port, f"{name}-out") as sender:
        receiver.send(frames.attach_receiver("in", 0, address=name) + frames.credit(ENOUGH, 0, incoming_window=ENOUGH))
        receiver.wait(ATTACH, 1)
        sender.send(frames.attach_sender("out", 0, address=name))
        sender.wait(FLOW, 1)
        reading = threading.Thread(target=_read_all, args=(receiver,))
        reading.start()
        try:
            yield sender
        finally:
            receiver.send(frames.close())
            reading.join()


def _read_all(client: RawClient) -> None:
    while client.read():
        pass


def _annotations(port: int, part: int) -> Span:
    annotations = {Symbol(f"x-opt-{n}"): "x" * 8 for n in range(LARGE // 30)}
    payload = encode_message(Message(message_annotations=annotations, body=b"x"))
    with _pair(port, "annotated") as sender:
        begun = time.monotonic()
        for n in range(ANNOTATED // part):
            sender.wait_for_window(n + 1, n + 1)
            sender.send(frames.transfer(n, payload, settled=True))
        sender.send(frames.close())
        return begun, sender.wait_closed()


def _growing(port: int, part: int) -> Span:
    """Deliveries of which the annotations do not end before the router refuses them."""
    first = b"\x00\x53\x72\xd1" + (4 << 20).to_bytes(4, "big") + (2).to_bytes(4, "big")
    first += b"\xa3\x01x\xb1" + (3 << 20).to_bytes(4, "big")
    begun = time.monotonic()
    for _ in range(GROWING // part):
        with _pair(port, "growing") as sender:
            sender.send(frames.transfer(0, first, more=True))
            for n in range(ANNOTATION_OCTETS // LARGE):
                sender.wait_for_window(n + 2, 1)
                sender.send(frames.transfer(None, bytes(LARGE), more=True))
            sender.wait(DISPOSITION, 1)
    return begun, time.monotonic()


def _octets(port: int, part: int) -> Span:
    data = frames.EMPTY * (OCTETS // part // len(frames.EMPTY))
    with RawClient(port, "octets") as client:
        begun = time.monotonic()
        for n in range(len(data)):
            client.send(data[n : n + 1])
        return begun, time.monotonic()


def _fragments(port: int, part: int) -> Span:
    later = frames.transfer(None, b"x", more=True) * 1000
    with _pair(port, "fragments") as sender:
        begun = time.monotonic()
        sender.send(frames.transfer(0, frames.message(b"x" * 10)[:-10], more=True))
        for _ in range(FRAGMENTS // part // 1000):
            sender.send(later)
        sender.send(frames.close())
        return begun, sender.wait_closed()


def _flows(port: int, part: int) -> Span:
    some = (frames.flow() + frames.disposition(0, last=ENOUGH)) * 500
    with RawClient(port, "flows") as client:
        begun = time.monotonic()
        for _ in range(FLOWS // part // 1000):
            client.send(some)
        client.send(frames.close())
        return begun, client.wait_closed()


ATTACKS: Final[Mapping[str, Attack]] = {
    "churn": _churn,
    "opens": _opens,
    "silent": _silent,
    "maps": partial(_attaches, {Symbol(f"k{n:04}"): n % 100 for n in range(MOST_VALUES // 2)}),
    "nesting": partial(_attaches, {Symbol("deep"): [_nested(20)] * (MOST_VALUES // 22)}),
    "annotations": _annotations,
    "growing": _growing,
    "octets": _octets,
    "fragments": _fragments,
    "flows": _flows,
}


def attacks_of(tls: int, passwords: int) -> dict[str, Attack]:
    """All attacks on a router with `listeners` at these ports."""
    return {
        **ATTACKS,
        "hellos": partial(_hellos, tls),
        "shakes": partial(_shakes, tls),
        "logins": partial(_logins, passwords),
    }


def _run(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    raise_file_limit()
    part = portion(bench)
    tls, passwords = free_port(), free_port()
    attacks = attacks_of(tls, passwords)
    with tempfile.TemporaryDirectory() as folder:
        spec = RouterSpec("A", extra=listeners(Path(folder), tls, passwords))
        for name, attack in attacks.items():  # one at a time: many leave something to be ended
            with running(bench.mesh_launcher, spec, RouterSpec("Q")) as (router, quiet):
                yield attacked(name, attack, part, router.port, quiet.port)


def attacked(name: str, attack: Attack, part: int, port: int, quiet: int) -> Mapping[str, float]:
    """The 99th percentile during the attack on the router with this port, by that before, and by that of a client of
    the router with the port `quiet` at the same time: both clients wait for the cores that the attacking one uses."""
    with Pinger(port) as pinger, Pinger(quiet) as other:
        before = idle_span()
        span = attack(port, part)
        time.sleep(SETTLE_S)
        trips, others = pinger.trips(), other.trips()
    during = p99(trips, span)
    return {f"attack-{name}": during / p99(trips, before), f"attack-beside-{name}": during / p99(others, span)}


SECURED: Final = {"sslProfile": "p", "requireSsl": "yes"}
"""Attributes of a listener with TLS beside `listeners`."""


def listeners(folder: Path, tls: int, passwords: int) -> list[tuple[str, Mapping[str, object]]]:
    """One with TLS, and one with users, which has TLS, too, if its port is a TlsPort."""
    pair = Authority(folder).issue("server", {"CN": "localhost"}, algorithm="RSA")
    over_tls = SECURED if isinstance(passwords, TlsPort) else {}
    users = folder / "shop.users"
    users.write_text(make_line("shop", "right"), encoding="utf-8")
    local = {"host": "127.0.0.1", "role": "normal"}
    login = {"authenticatePeer": "yes", "allowInsecurePlain": "yes", "saslMechanisms": "PLAIN", "usersFile": users}
    return [
        ("sslProfile", {"name": "p", "certFile": pair.cert, "privateKeyFile": pair.key}),
        ("listener", {**local, "name": "tls", "port": tls, **SECURED}),
        ("listener", {**local, "name": "passwords", "port": passwords, **login, **over_tls}),
    ]


SCENARIOS: Final = (Scenario("attacks", _run),)
