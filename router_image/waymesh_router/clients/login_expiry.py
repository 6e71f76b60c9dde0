"""Closes connections whose login expires: by a token, or by a certificate at a listener with `recheckPeers`. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import UNAUTHORIZED_ACCESS
from waymesh_router.certificates.expiry import ExpiryWarnings, next_time
from waymesh_router.events.event import about, short
from waymesh_router.peers.certificate import PeerCertificate
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_router.core.model import RouterConnection
    from waymesh_router.host import Host

Attributes = Mapping[str, Any]


class LoginExpiry:
    """Checks the open connections of clients and other routers whose login expires."""

    def __init__(self, host: Host, listeners: Mapping[str, Attributes]) -> None:
        """`listeners`: attributes by name."""
        self._host = host
        self._listeners = listeners
        self._connections: dict[RouterConnection, Attributes] = {}
        self._warnings = ExpiryWarnings()
        self._next = math.inf

    def opened(self, conn: RouterConnection) -> None:
        """A connection is open."""
        if conn.expires_at < math.inf or conn.peer.certificate is not None:
            self._connections[conn] = self._listeners.get(conn.origin, {})
            self._next = min(self._next, 0.0 if self._certificate(conn) is not None else conn.expires_at)

    def connection_closed(self, conn: RouterConnection) -> None:
        """A connection has ended."""
        self._connections.pop(conn, None)

    def listener_changed(self) -> None:
        """The attributes of a listener have changed."""
        self._next = 0.0

    def tick(self, _now: float) -> None:
        """Close connections with an expired login, by the clock that tokens are checked with, which may differ from
        the loop's."""
        if not self._connections:
            return
        now = self._host.tokens.now()
        if now < self._next:
            return
        self._next = math.inf
        for conn in list(self._connections):
            certificate = self._certificate(conn)
            if now >= conn.expires_at:
                self._close(conn, "token expired")
            elif certificate is not None and now >= certificate.validity.end:
                self._close(conn, f"the certificate of the peer expired at {certificate.validity.end_text}")
            else:
                self._next = min(self._next, conn.expires_at, self._check_expiry(conn, certificate, now))

    def _certificate(self, conn: RouterConnection) -> PeerCertificate | None:
        """The certificate whose expiry ends the connection, if any. For a deleted listener, its last attributes
        apply."""
        attrs = self._listeners.get(conn.origin, self._connections[conn])
        certificate: PeerCertificate | None = conn.peer.certificate
        return certificate if attrs.get("recheckPeers") else None

    def _close(self, conn: RouterConnection, text: str) -> None:
        del self._connections[conn]
        conn.close(UNAUTHORIZED_ACCESS, text)

    def _check_expiry(self, conn: RouterConnection, certificate: PeerCertificate | None, now: float) -> float:
        """Warn of a certificate that expires soon; returns the time of the next check."""
        if certificate is None:
            return math.inf
        validity, subject = certificate.validity, short(certificate.subject)
        if self._warnings.due(f"{certificate.number} {subject}", validity, now):
            text = f"[C{conn.id}] the certificate of the peer expires at {validity.end_text}: {subject}"
            detail = {"certificate": subject, "number": certificate.number, "ends": validity.end_text}
            self._host.log("SERVER", "warning", text, about(LogEvent.CERTIFICATE_EXPIRES, conn, **detail))
        return next_time(validity, now)
