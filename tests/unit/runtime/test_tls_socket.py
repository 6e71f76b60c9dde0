"""`TlsSocket` on real sockets. Its effects for clients are in the tests of listeners and connectors."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct

import pytest

from tests.kit.certificates import Authority, KeyPair
from waymesh_router.runtime.tls.sockets import TlsSocket

RECORDS_PER_READ = 64
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def handshaken_pair(authority: Authority, server: KeyPair) -> tuple[TlsSocket, TlsSocket]:
    """Both ends of a connection after the handshake: client and server."""
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(server.cert, server.key)
    trust = ssl.create_default_context(cafile=str(authority.cert))
    pair = socket.socketpair()
    for each in pair:
        each.setblocking(False)
    ends = TlsSocket(trust, pair[0], server=False, host="localhost"), TlsSocket(ours, pair[1], server=True)
    waiting = [*ends]
    while waiting:
        end = waiting.pop(0)
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(end)
    return ends


def test_the_end_of_a_connection_whose_peer_is_gone_raises_nothing(authority: Authority, server: KeyPair) -> None:
    client, router = handshaken_pair(authority, server)
    client.close()
    router.end().close()


class Far:
    """A TLS client in memory, so that the test decides which of its octets arrive together, and the router's end."""

    def __init__(self, authority: Authority, server: KeyPair, version: ssl.TLSVersion) -> None:
        trust = ssl.create_default_context(cafile=str(authority.cert))
        trust.minimum_version = trust.maximum_version = version
        ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ours.load_cert_chain(server.cert, server.key)
        self.inbox, self.outbox = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = trust.wrap_bio(self.inbox, self.outbox, server_hostname="localhost")
        here, self.there = socket.socketpair()
        for end in (here, self.there):
            end.setblocking(False)
        self.router = TlsSocket(ours, here, server=True)

    def says(self) -> bytes:
        """Its part of the handshake after what the router has answered."""
        with contextlib.suppress(BlockingIOError):
            self.inbox.write(self.there.recv(1 << 16))
        with contextlib.suppress(ssl.SSLWantReadError):
            self.client.do_handshake()
        return self.outbox.read()

    def data(self, *records: bytes) -> bytes:
        for record in records:
            self.client.write(record)
        return self.outbox.read()

    def goes_on(self) -> bool:
        """Let the router continue; whether its handshake is complete."""
        try:
            self.router.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def received(self) -> bytes:
        """What the router reads until it must wait."""
        data = b""
        while self.router.more or select.select([self.router], [], [], 0)[0]:
            try:
                part = self.router.recv(1 << 14)
            except ssl.SSLWantReadError:
                continue
            assert part, "it ended"
            data += part
        return data


@pytest.mark.parametrize("version", VERSIONS)
def test_data_that_arrives_with_the_end_of_the_handshake_is_kept(
    authority: Authority, server: KeyPair, version: ssl.TLSVersion
) -> None:
    far = Far(authority, server, version)
    far.there.sendall(far.says())
    assert not far.goes_on()
    last = far.says()
    if version == ssl.TLSVersion.TLSv1_2:  # there the client waits for the router's last message
        far.there.sendall(last)
        assert far.goes_on()
        assert not far.router.more
        far.says()
        far.there.sendall(far.data(b"a", b"b" * 16384))
    else:
        far.there.sendall(last + far.data(b"a", b"b" * 16384))
        assert far.goes_on()
        assert far.router.more, "epoll does not report what was read"
    assert far.received() == b"a" + b"b" * 16384


@pytest.mark.parametrize("size", [1, 2, 5, 6, 7, 50, 85])
def test_a_handshake_and_the_data_behind_it_may_arrive_in_parts(
    authority: Authority, server: KeyPair, size: int
) -> None:
    far = Far(authority, server, ssl.TLSVersion.TLSv1_3)
    complete = False
    first = far.says()
    for at in range(0, len(first), size):
        far.there.sendall(first[at : at + size])
        assert not far.goes_on()
    rest = far.says() + far.data(b"first", b"second")
    for at in range(0, len(rest), size):
        far.there.sendall(rest[at : at + size])
        complete = complete or far.goes_on()
    assert complete
    assert far.received() == b"firstsecond"


def test_a_first_message_in_very_many_records_takes_several_turns(authority: Authority, server: KeyPair) -> None:
    far = Far(authority, server, ssl.TLSVersion.TLSv1_3)
    whole = far.says()
    message = whole[5:]
    split = b"".join(whole[:3] + struct.pack("!H", 1) + message[at : at + 1] for at in range(len(message)))
    far.there.sendall(split)
    turns = 0
    while True:
        turns += 1
        assert not far.goes_on()
        if not far.router.more:
            break
    assert turns == -(-len(message) // RECORDS_PER_READ)
    far.there.sendall(far.says())
    assert far.goes_on()


def test_a_peer_that_leaves_in_the_handshake_ends_it(authority: Authority, server: KeyPair) -> None:
    far = Far(authority, server, ssl.TLSVersion.TLSv1_3)
    far.there.sendall(far.says()[:100])
    far.there.shutdown(socket.SHUT_WR)
    assert not far.goes_on()
    with pytest.raises(OSError, match="EOF"):
        far.goes_on()
