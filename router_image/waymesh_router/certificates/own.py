"""Warns before the certificates expire with which the router authenticates itself to other routers. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from waymesh_router.certificates.expiry import ExpiryWarnings
from waymesh_router.events.event import Event
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_router.connections.connector_state import ConnectorState
    from waymesh_router.host import Host

POLL_S = 5.0
ROLES = ("inter-router", "edge")


class OwnCertificates:
    """Checks the certificates of connectors with one of ROLES."""

    def __init__(self, host: Host, connectors: Mapping[str, ConnectorState]) -> None:
        """`connectors`: by name."""
        self._host = host
        self._connectors = connectors
        self._warnings = ExpiryWarnings()
        self._next = -math.inf

    def tick(self, now: float) -> None:
        """Check the certificates every POLL_S: files are renewed, and connectors are created and deleted."""
        if now < self._next:
            return
        self._next = now + POLL_S
        certificates = self._host.certificates()
        if not certificates:
            return
        clock = self._host.tokens.now()
        for name, state in self._connectors.items():
            profile = str(state.attrs.get("sslProfile") or "")
            validity = certificates.get(profile) if state.attrs["role"] in ROLES else None
            if validity is None or not self._warnings.due(profile, validity, clock):
                continue
            ends = validity.end_text
            text = f"connector {name}: the certificate of sslProfile {profile} expires at {ends}: renew it before"
            event = Event(LogEvent.CERTIFICATE_EXPIRES, {"connector": name}, {"sslProfile": profile, "ends": ends})
            self._host.log("SERVER", "warning", text, event)
