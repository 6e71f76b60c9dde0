"""Bad peers of a listener with TLS: what they change in their flights, and how they end."""

from __future__ import annotations

import random
import select
import socket
import ssl
import struct
from contextlib import suppress
from typing import Final

from tests.fuzz.mutate import mutate
from tests.kit.tls_library import TLS_1_2, connected

WAIT_S: Final = 0.02
"""For an answer of the router, which may have none for a peer that it has not understood."""
FLIGHTS: Final = ("first", "second", "data")
TYPES: Final = (20, 21, 22, 23, 24, 0, 255)
ALERTS: Final = (0, 10, 20, 22, 40, 42, 46, 80, 90, 100, 255)
LENGTHS: Final = (0, 1, 16384, 16640, 18432, 18433, 65535)
ENDS: Final = ("look", "close", "reset", "hold")
RESET: Final = struct.pack("ii", 1, 0)


def records(octets: bytes) -> list[bytes]:
    """The whole records of a flight."""
    found = []
    while len(octets) >= 5:
        end = 5 + struct.unpack_from("!H", octets, 3)[0]
        found.append(octets[:end])
        octets = octets[end:]
    return found


def disorder(rng: random.Random, octets: bytes, hello: bytes) -> bytes:
    """Records that are doubled, left out, swapped, split, empty, of another type, or too long; alerts, another first
    message (`hello`), or garbage between them; half of them; or any change of octets.
    """
    parts = records(octets)
    if not parts or rng.random() < 0.3:
        return mutate(rng, [octets])
    at = rng.randrange(len(parts))
    one = parts[at]
    change = rng.randrange(12)
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
        parts[at] = one[:3] + struct.pack("!H", rng.choice(LENGTHS)) + one[5:]
    elif change == 7:
        parts[at] = one[:5] + rng.randbytes(len(one) - 5)
    elif change == 8:
        alert = b"\x15\x03\x03\0\x02" + bytes((rng.choice((0, 1, 2, 255)), rng.choice(ALERTS)))
        parts[at:at] = [alert] * rng.choice((1, 1, 5, 100))
    elif change == 9:
        parts[at + rng.randrange(2) : at + 1] = [hello]
    elif change == 10:
        length = rng.choice(LENGTHS)
        parts.insert(at, bytes((rng.choice(TYPES), 3, 3)) + struct.pack("!H", length) + rng.randbytes(length))
    else:
        return octets[: rng.randrange(1, len(octets))]
    return b"".join(parts)


class Peer:
    """One bad peer. `held`: its connection, if it stays open."""

    def __init__(self, rng: random.Random, context: ssl.SSLContext, port: int, data: bytes) -> None:
        self._rng, self._data = rng, data
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")
        self._hello = _hello(context)
        self._sock = socket.create_connection(("127.0.0.1", port), 30)
        self.held: socket.socket | None = None

    def run(self) -> str:
        """Do its worst; returns how it ended, as far as it has seen."""
        bad, end = self._rng.choice(FLIGHTS), self._rng.choice(ENDS)
        seen = "ended before"
        with suppress(OSError):
            seen = self._converse(bad, end)
        if end == "reset":
            with suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if end == "hold":
            self.held = self._sock
        else:
            self._sock.close()
        return f"{bad}, {end}: {seen}"

    def _converse(self, bad: str, end: str) -> str:
        for flight in FLIGHTS:
            octets = self._flight(flight)
            if flight == bad:
                self._send(disorder(self._rng, octets, self._hello))
                return self._seen() if end == "look" else "not asked"
            if flight == "second" and self._rng.random() < 0.5:
                octets += self._flight("data")  # together with the end of the handshake
            self._send(octets)
            if flight == "first":
                select.select([self._sock], [], [], 30)
                self._in.write(self._sock.recv(1 << 16))
        raise AssertionError("one flight is bad")

    def _flight(self, flight: str) -> bytes:
        if flight == "data":
            for _ in range(self._rng.choice((1, 1, 3, 100))):
                self._tls.write(self._data)
            if self._rng.random() < 0.1:  # records of the largest size
                self._tls.write(bytes(1 << 18))
            if self._rng.random() < 0.1:  # the alert that ends the connection; a change may put data behind it
                with suppress(ssl.SSLWantReadError):
                    self._tls.unwrap()
        else:
            with suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
        return self._out.read()

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


def _hello(context: ssl.SSLContext) -> bytes:
    out = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    return out.read()


def renegotiate(port: int, data: bytes) -> str:
    """A client that sends data and asks for another handshake."""
    with connected(port, TLS_1_2) as client:
        client.send(data)
        return f"another handshake: {'made' if client.renegotiates() else 'refused'}"
