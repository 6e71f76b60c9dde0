"""Closes open connections whose peers would now be refused: connections with routers whose certificates are revoked,
and connections at listeners with `recheckPeers`."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from waymesh_amqp.errors import UNAUTHORIZED_ACCESS
from waymesh_router.runtime.tls.chain import covered, roots, verified_chain
from waymesh_router.runtime.tls.contexts import TlsProfile
from waymesh_router.runtime.tls.endpoints import WITHOUT_TLS, ListenerTls
from waymesh_router.runtime.tls.expiry import encoded
from waymesh_router.runtime.tls.profiles import Profiles
from waymesh_router.runtime.tls.revocation import of_revoked_router
from waymesh_router.runtime.tls.sockets import TlsSocket
from waymesh_router.runtime.transport.listener import Listener

REVOKED = "the certificate of the peer was revoked"
UNTRUSTED = "the authority of the peer's certificate is no longer trusted"
NO_CERTIFICATE = "the peer has no certificate, but the listener requires one"


class Close(Protocol):
    """Closes a connection."""

    def __call__(self, io: Any, reason: str, condition: str = "") -> None:
        """Without a condition, a client's transport is closed without a close frame."""


class PeerCheck:
    """Checks the peers of open connections again after profiles or listeners have changed."""

    def __init__(
        self, profiles: Profiles, listeners: Mapping[str, Listener], connections: Mapping[Any, Any], close: Close
    ) -> None:
        """`listeners`, `connections`: live mappings of the host."""
        self._profiles = profiles
        self._listeners = listeners
        self._connections = connections
        self._close = close
        self._loads = profiles.loads()

    def poll(self) -> None:
        """Check all connections if files or attributes of profiles have changed since the last check."""
        if self._profiles.loads() != self._loads:
            self.check()

    def check(self) -> None:
        """Check all connections, and close those whose peers would now be refused."""
        self._loads = self._profiles.loads()
        checks: dict[ListenerTls, ListenerCheck] = {}
        for io in list(self._connections.values()):
            endpoint = io.info.endpoint
            if isinstance(endpoint, Listener):
                # The current listener of this name or, if it was deleted, the one that accepted the connection.
                endpoint = self._listeners.get(endpoint.name, endpoint)
            if of_revoked_router(io.sock, endpoint):
                self._close(io, REVOKED)
            elif endpoint.tls is not None and endpoint.attrs.get("recheckPeers"):
                if endpoint.tls not in checks:
                    checks[endpoint.tls] = ListenerCheck(endpoint.tls)
                reason = checks[endpoint.tls].refusal(io.sock)
                if reason is not None:
                    self._close(io, reason, UNAUTHORIZED_ACCESS)


class ListenerCheck:
    """Decides which open connections of one listener would now be refused."""

    def __init__(self, tls: ListenerTls) -> None:
        self._tls = tls
        self._trust = [(profile, tls.context(profile)) for profile in tls.profiles]
        self._roots = [roots(context.get_ca_certs(True)) for _, context in self._trust]

    def refusal(self, sock: object) -> str | None:
        """The reason to close a connection; None if at least one of the profiles accepts the peer, because a client may
        request any host."""
        if not isinstance(sock, TlsSocket):
            return WITHOUT_TLS if self._tls.required else None
        chain = verified_chain(sock.tls)
        reasons = []
        for (profile, context), trusted in zip(self._trust, self._roots):
            if not chain:
                reasons.append(NO_CERTIFICATE if context.verify_mode == ssl.CERT_REQUIRED else None)
            elif profile.attrs.get("peersOnly") or covered(chain, trusted) or self._lists_certificate(profile, chain):
                reasons.append(self._tls.refused_peer(sock, profile))
            else:
                reasons.append(UNTRUSTED)
        return None if None in reasons else reasons[0]

    def _lists_certificate(self, profile: TlsProfile, chain: list[bytes]) -> bool:
        """Whether the file of trusted certificates contains the peer's own (self-signed) certificate. True if the file
        is unreadable, because the certificates that were loaded before are then still in use."""
        if len(chain) > 1:
            return False
        try:
            return chain[0] in encoded(Path(self._tls.authorities(profile)).read_text(encoding="latin-1"))
        except (OSError, ValueError):
            return True
