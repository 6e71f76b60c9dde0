"""Fuzzes the handshake and the record layer of a live router over TLS: only the bad peer may lose its connection.

`python -m tests.fuzz.tls --seconds 600 --seed 1`. A peer makes its TLS records in memory, changes a flight and sends
it in parts; some peers use HTTP. After each lot of peers, a client that has been connected from the begin must
still be, a new one must be able to exchange a message, and the router must have no internal error.
"""

from __future__ import annotations

import argparse
import random
import select
import socket
import ssl
import struct
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.fuzz.finding import Finding
from tests.fuzz.mutate import mutate
from tests.interop.hostile import exchange_in_time
from tests.interop.raw_client import RawClient
from tests.kit.certificates import Authority
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from waymesh_amqp.performatives import Open, encode_frame

LOT = 50
WAIT_S = 0.02
"""For an answer of the router, which may have none for a peer that it has not understood."""
FLIGHTS = ("first", "second", "data")
TYPES = (20, 21, 22, 23, 24, 0, 255)
DATA = b"AMQP\x00\x01\x00\x00" + encode_frame(0, Open(container_id="bad"))
PAGE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def records(octets: bytes) -> list[bytes]:
    """The whole records of a flight."""
    found = []
    while len(octets) >= 5:
        end = 5 + struct.unpack_from("!H", octets, 3)[0]
        found.append(octets[:end])
        octets = octets[end:]
    return found


def disorder(rng: random.Random, octets: bytes) -> bytes:
    """Records that are doubled, left out, swapped, split, empty, of another type, or too long; or any change of octets.
    """
    parts = records(octets)
    if not parts or rng.random() < 0.4:
        return mutate(rng, [octets])
    at = rng.randrange(len(parts))
    one = parts[at]
    change = rng.randrange(8)
    if change == 0:
        parts[at:at] = [one] * rng.choice((1, 2, 70, 1100))
    elif change == 1:
        del parts[at]
    elif change == 2:
        parts.append(parts.pop(at))
    elif change == 3:  # a record for each octet
        parts[at : at + 1] = [one[:3] + struct.pack("!H", 1) + one[5 + i : 6 + i] for i in range(len(one) - 5)]
    elif change == 4:
        parts[at:at] = [one[:3] + b"\0\0"] * rng.choice((1, 63, 64, 65, 2000))
    elif change == 5:
        parts[at] = bytes((rng.choice(TYPES),)) + one[1:]
    elif change == 6:
        parts[at] = one[:3] + struct.pack("!H", rng.choice((0, 1, 16384, 16640, 18432, 18433, 65535))) + one[5:]
    else:
        parts[at] = one[:5] + rng.randbytes(len(one) - 5)
    return b"".join(parts)


class Peer:
    """One bad peer."""

    def __init__(self, rng: random.Random, context: ssl.SSLContext, port: int, data: bytes) -> None:
        self._rng, self._data = rng, data
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")
        self._sock = socket.create_connection(("127.0.0.1", port), 30)

    def run(self) -> str:
        """Do its worst; returns how it ended, as far as it has seen."""
        bad = self._rng.choice(FLIGHTS)
        with self._sock, suppress(OSError):
            for flight in FLIGHTS:
                if flight == "data":
                    for _ in range(self._rng.choice((1, 1, 3, 100))):
                        self._tls.write(self._data)
                else:
                    with suppress(ssl.SSLWantReadError):
                        self._tls.do_handshake()
                octets = self._out.read()
                if flight == bad:
                    self._send(disorder(self._rng, octets))
                    return f"{bad}: {self._seen()}"
                if flight == "second" and self._rng.random() < 0.5:
                    self._tls.write(self._data)  # together with the end of the handshake
                    octets += self._out.read()
                self._send(octets)
                if flight == "first":
                    select.select([self._sock], [], [], 30)
                    self._in.write(self._sock.recv(1 << 16))
        return f"{bad}: ended before"

    def _send(self, octets: bytes) -> None:
        while octets:
            size = self._rng.choice((1, 3, 5, 100, 5000, 1 << 20))
            if len(octets) > 3000:
                size = max(size, 1000)
            self._sock.sendall(octets[:size])
            octets = octets[size:]

    def _seen(self) -> str:
        if not select.select([self._sock], [], [], WAIT_S)[0]:
            return "still open"
        return "answered" if self._sock.recv(1 << 16) else "closed"


def fuzz(seconds: float, seed: int) -> None:
    """Fuzz for so long. Raises Finding."""
    rng = random.Random(seed)
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        pair = authority.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))
        worker = authority.issue("client", {"CN": "worker"})
        plain, tls, web, known = (free_port() for _ in range(4))
        text = section("router", mode="standalone", id="fuzzed")
        text += section("listener", name="plain", host="127.0.0.1", port=plain, saslMechanisms="ANONYMOUS")
        text += section(
            "sslProfile", name="p", certFile=pair.cert, privateKeyFile=pair.key, caCertFile=authority.cert
        )
        secured = {"host": "127.0.0.1", "sslProfile": "p", "requireSsl": True, "initialHandshakeTimeoutSeconds": 5}
        text += section("listener", name="tls", port=tls, saslMechanisms="ANONYMOUS", **secured)
        text += section("listener", name="web", port=web, http=True, saslMechanisms="ANONYMOUS", **secured)
        certified = {"saslMechanisms": "EXTERNAL", "authenticatePeer": True}
        text += section("listener", name="known", port=known, **certified, **secured)
        router = RouterProcess(Path(folder), "fuzzed", text, (plain, tls, web, known), within=())
        router.start()
        contexts = []
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = ssl.create_default_context(cafile=str(authority.cert))
            context.minimum_version = context.maximum_version = version
            context.load_cert_chain(worker.cert, worker.key)
            contexts.append(context)
        try:
            with RawClient(tls, contexts[1]) as steady:
                steady.open()
                steady.begin()
                steady.attach_receiver("steady", credit=1_000_000)
                sender = steady.attach_sender("steady")
                end, count = time.monotonic() + seconds, 0
                while time.monotonic() < end:
                    for _ in range(LOT):
                        port = rng.choice((tls, web, known))
                        data = PAGE if port == web else DATA
                        seen[Peer(rng, rng.choice(contexts), port, data).run()] += 1
                        count += 1
                    for port in (plain, tls):
                        exchange_in_time(port, contexts[1] if port == tls else None)
                    log = router.log
                    if "Traceback" in log:  # the alert of a peer may be named "internal error", too
                        raise Finding(f"after {count} peers: {log[log.index('Traceback') :][:3000]}")
                    steady.transfer(sender, b"\x00\x53\x77\xa1\x04here", settled=True)
                    if not steady.delivery()[1].endswith(b"here"):
                        raise Finding(f"after {count} peers: another message than the one that was sent")
        finally:
            router.stop()
    print(f"{count} bad peers in {seconds:.0f} s, no finding; {dict(seen.most_common())}")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.tls")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    try:
        fuzz(options.seconds, options.seed)
    except Finding as finding:
        print(finding)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
