"""`TlsSocket` on real sockets. Its effects for clients are in the tests of listeners and connectors."""

from __future__ import annotations

import socket
import ssl

from tests.kit.certificates import Authority, KeyPair
from waymesh_router.runtime.tls.sockets import TlsSocket


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
