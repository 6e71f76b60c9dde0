"""The host name that a TLS client requests (SNI), parsed from its ClientHello. Pure.

The name only selects the sslProfile for the handshake; OpenSSL still validates every byte. Selecting the profile before
the handshake applies all its settings. With OpenSSL's SNI callback, which changes the certificate during the handshake,
the protocols, verification and revocation lists of the listener's default profile would stay in effect.
"""

from __future__ import annotations

from collections.abc import Iterator

RECORD_HEADER = 5
"""Type, version and length. Source: RFC 8446, 5.1."""
HANDSHAKE, CLIENT_HELLO = 22, 1
SERVER_NAME, HOST_NAME = 0, 0
"""Numbers of the extension and of the name type. Source: RFC 6066, 3."""
MAX_BYTES = 32768
"""Maximum size of the message with its record headers. Real messages, with post-quantum keys, have about 2 kB."""
MAX_RECORDS = 64
"""Maximum number of records. Real messages have one or two; many tiny ones would make each parse slow."""


def complete(data: bytes) -> bool:
    """Whether `data` contains the whole message, or is not a ClientHello, so that no more bytes are needed."""
    message = _message(data)
    if message is None or len(data) >= MAX_BYTES:
        return True
    return _whole(message)


def requested_host(data: bytes) -> str | None:
    """The host name in a complete message; None if it has none or is invalid."""
    message = _message(data)
    if not message or message[0] != CLIENT_HELLO:
        return None
    try:
        return _host(_Reader(message[4 : 4 + int.from_bytes(message[1:4], "big")]))
    except (IndexError, UnicodeDecodeError):
        return None


def _message(data: bytes) -> bytes | None:
    """The handshake bytes of the records so far; None for any other content, or too many records."""
    found, at, records = b"", 0, 0
    while at < len(data) and not _whole(found):  # records of other types (early data) may follow it
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
    """Reads fields in sequence. Raises IndexError past the end."""

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
        """A field that is preceded by its length in `size` bytes."""
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
