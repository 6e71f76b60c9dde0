"""Fuzzes the handshake and the record layer of a live router over TLS: only the bad peer may lose its connection.

`python -m tests.fuzz.tls --seconds 600 --seed 1`. A peer makes its TLS records in memory, changes a flight and sends
it in parts; some peers use HTTP, some ask for another handshake, and some keep their connections open. Beside them, a
client that has been connected from the begin sends itself messages, all of which must arrive in order. After each lot
of peers, new clients must be able to exchange a message, the router must have no internal error, and no descriptor of
the peers that are gone. Its memory must not grow, either.
"""

from __future__ import annotations

import argparse
import random
import socket
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.fuzz.finding import Finding
from tests.fuzz.tls_peers import Peer, renegotiate
from tests.interop.hostile import descriptors, exchange_in_time
from tests.interop.raw_client import RawClient
from tests.kit.certificates import Authority
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import Open, encode_frame

LOT: Final = 50
EACH: Final = 5
"""After so many peers, the good client sends a message."""
HELD: Final = 40
"""So many bad peers keep their connections open until their lot ends."""
SETTLED: Final = 1000
"""After so many peers, memory should not grow any more …"""
GROWTH_BYTES: Final = 16 << 20
"""… by more than this."""
DATA: Final = b"AMQP\x00\x01\x00\x00" + encode_frame(0, Open(container_id="bad"))
PAGE: Final = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class _World:
    """A router with listeners for AMQP, HTTP, and clients with certificates, and contexts of clients."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder)
        pair = authority.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))
        worker = authority.issue("client", {"CN": "worker"})
        self.plain, self.tls, self.web, self.known = (free_port() for _ in range(4))
        text = section("router", mode="standalone", id="fuzzed")
        text += section("listener", name="plain", host="127.0.0.1", port=self.plain, saslMechanisms="ANONYMOUS")
        text += section("sslProfile", name="p", certFile=pair.cert, privateKeyFile=pair.key, caCertFile=authority.cert)
        secured = {"host": "127.0.0.1", "sslProfile": "p", "requireSsl": True, "initialHandshakeTimeoutSeconds": 5}
        text += section("listener", name="tls", port=self.tls, saslMechanisms="ANONYMOUS", **secured)
        text += section("listener", name="web", port=self.web, http=True, saslMechanisms="ANONYMOUS", **secured)
        certified = {"saslMechanisms": "EXTERNAL", "authenticatePeer": True}
        text += section("listener", name="known", port=self.known, **certified, **secured)
        ports = (self.plain, self.tls, self.web, self.known)
        self.router = RouterProcess(folder, "fuzzed", text, ports, within=())
        self.contexts = []
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = ssl.create_default_context(cafile=str(authority.cert))
            context.minimum_version = context.maximum_version = version
            context.load_cert_chain(worker.cert, worker.key)
            self.contexts.append(context)

    def exchange(self) -> None:
        """New clients are served."""
        exchange_in_time(self.plain)
        exchange_in_time(self.tls, self.contexts[1])


class _Steady:
    """The good client: it is connected all the time, and sends itself numbered messages."""

    def __init__(self, raw: RawClient) -> None:
        self._raw = raw
        raw.open()
        raw.begin()
        raw.attach_receiver("steady", credit=1_000_000)
        self._sender = raw.attach_sender("steady")
        self._sent = self._received = 0

    def send(self) -> None:
        body = self._sent.to_bytes(4, "big")
        self._raw.transfer(self._sender, b"\x00\x53\x77\xa0\x04" + body, settled=True)
        self._sent += 1

    def receive(self) -> None:
        """All that was sent. Raises Finding."""
        while self._received < self._sent:
            found = int.from_bytes(self._raw.delivery()[1][-4:], "big")
            if found != self._received:
                raise Finding(f"message {found} came where {self._received} was due")
            self._received += 1


@contextmanager
def _world() -> Iterator[_World]:
    with tempfile.TemporaryDirectory() as folder:
        world = _World(Path(folder))
        world.router.start()
        try:
            yield world
        finally:
            world.router.stop()


def fuzz(seconds: float, seed: int, most: int | None = None) -> Counter[str]:
    """Fuzz for so long, or until so many peers are gone; how these ended. Raises Finding."""
    rng = random.Random(seed)
    seen: Counter[str] = Counter()
    with _world() as world, RawClient(world.tls, world.contexts[1]) as raw:
        steady = _Steady(raw)
        world.exchange()
        open_before = descriptors(world.router)
        memory = resident = 0
        end, count = time.monotonic() + seconds, 0
        while time.monotonic() < end and (most is None or count < most):
            _lot(world, rng, seen, steady)
            count += LOT
            _look(world, open_before, f"after {count} peers")
            resident = world.router.resident_bytes()
            if count == SETTLED:
                memory = resident
            if memory and resident > memory + GROWTH_BYTES:
                raise Finding(f"after {count} peers: {resident >> 20} MiB, {memory >> 20} after {SETTLED}")
        print(f"{count} bad peers, no finding; {open_before} descriptors; {memory >> 10} → {resident >> 10} KiB")
    return seen


def _lot(world: _World, rng: random.Random, seen: Counter[str], steady: _Steady) -> None:
    held: list[socket.socket] = []
    try:
        for number in range(LOT):
            if number % EACH == 0:
                steady.send()
            port = rng.choice((world.tls, world.web, world.known))
            data = PAGE if port == world.web else DATA
            if number == 0:
                seen[renegotiate(world.tls, DATA)] += 1
                continue
            peer = Peer(rng, rng.choice(world.contexts), port, data)
            seen[peer.run()] += 1
            if peer.held is not None:
                held.append(peer.held)
            if len(held) > HELD:
                held.pop(0).close()
        steady.receive()
        world.exchange()
    finally:
        for sock in held:
            sock.close()


def _look(world: _World, most: int, when: str) -> None:
    """What the peers have left. Raises Finding."""
    log = world.router.log
    if "Traceback" in log:  # the alert of a peer may be named "internal error", too
        raise Finding(f"{when}: {log[log.index('Traceback') :][:3000]}")
    wait_until(lambda: descriptors(world.router) <= most, 60.0, f"{when}: {most} descriptors")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.tls")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    try:
        print(dict(fuzz(options.seconds, options.seed).most_common()))
    except Finding as finding:
        print(finding)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
