"""The host name that a TLS client asks for (SNI), read from the first message of its handshake. Pure.

The name only selects which sslProfile does the handshake, and OpenSSL judges every byte. Selecting before the handshake
lets all settings of the profile act; what OpenSSL offers (a change of certificate during the handshake) would leave
protocols, verification and revocation lists of the listener's first profile in force.
"""

from __future__ import annotations

from collections.abc import Iterator

RECORD_HEADER = 5
"""Type, version and length. Source: RFC 8446, 5.1."""
HANDSHAKE, CLIENT_HELLO = 22, 1
SERVER_NAME, HOST_NAME = 0, 0
"""Numbers of the extension and of the kind of name. Source: RFC 6066, 3."""
MAX_BYTES = 32768
"""Of the message with the headers of its records. Real ones, with post-quantum keys, have about 2 kB."""
MAX_RECORDS = 64
"""Real ones have one or two. Without a limit, a client that sends many tiny ones could make each look take long."""


def complete(data: bytes) -> bool:
    """Whether `data` holds the whole message, or something that is none, so that more bytes would change nothing."""
    message = _message(data)
    if message is None or len(data) >= MAX_BYTES:
        return True
    return _whole(message)


def asked_host(data: bytes) -> str | None:
    """The host name in a complete message; None if it has none, or cannot be read."""
    message = _message(data)
    if not message or message[0] != CLIENT_HELLO:
        return None
    try:
        return _host(_Reader(message[4 : 4 + int.from_bytes(message[1:4], "big")]))
    except (IndexError, UnicodeDecodeError):
        return None


def _message(data: bytes) -> bytes | None:
    """The bytes of the handshake in the records so far; None if there is something else, or too many records."""
    found, at, records = b"", 0, 0
    while at < len(data) and not _whole(found):  # behind it there may be records of other types: early data
        records += 1
        if data[at] != HANDSHAKE or records > MAX_RECORDS:
            return None
        if len(data) < at + RECORD_HEADER:
            break
        start = at + RECORD_HEADER
        at = start + int.from_bytes(data[start - 2 : start], "big")
        found += data[start:at]
    return found if not found or found[0] == CLIENT_HELLO else None


def _whole(message: bytes) -> bool:
    return len(message) >= 4 and len(message) - 4 >= int.from_bytes(message[1:4], "big")


class _Reader:
    """Fields one after the other. Raises IndexError behind the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        self._at += size
        if self._at > len(self._data):
            raise IndexError
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> bytes:
        """A field with its length, of `size` bytes, before it."""
        return self.take(self.number(size))

    def __bool__(self) -> bool:
        return self._at < len(self._data)


def _host(hello: _Reader) -> str | None:
    hello.take(2 + 32)  # version and random
    for size in (1, 2, 1):  # session, ciphers and compressions. Source: RFC 8446, 4.1.2
        hello.vector(size)
    for number, content in _extensions(hello):
        if number == SERVER_NAME:
            return _first_name(_Reader(_Reader(content).vector(2)))
    return None


def _extensions(hello: _Reader) -> Iterator[tuple[int, bytes]]:
    if not hello:
        return
    extensions = _Reader(hello.vector(2))
    while extensions:
        yield extensions.number(2), extensions.vector(2)


def _first_name(names: _Reader) -> str | None:
    while names:
        kind, name = names.number(1), names.vector(2)
        if kind == HOST_NAME:
            return name.decode("ascii")
    return None
