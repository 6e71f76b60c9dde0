"""TLS of a listener, with the sslProfile for the host that a client asks for, and of a connector."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.peer_names import matches
from waymesh_router.runtime.revocation import Serial
from waymesh_router.runtime.tls import TlsProfile


class ListenerTls:
    """The profiles of a listener."""

    def __init__(self, attrs: Mapping[str, Any], default: TlsProfile, by_host: Mapping[str, TlsProfile]) -> None:
        """`by_host`: the profiles of sslProfilesByHost. Raises HostError if one is unusable for the listener."""
        self._attrs = attrs
        self.default = default
        self.by_host = {host.lower(): profile for host, profile in by_host.items()}
        for profile in (default, *by_host.values()):  # reports a bad certificate now and not at the first client
            self.check(profile)

    def chosen(self, host: str | None) -> TlsProfile:
        """The profile for clients that ask for this host; None: for none."""
        if not host:
            return self.default
        name = host.lower().rstrip(".")
        exact = self.by_host.get(name)
        if exact is not None:
            return exact
        return next((profile for pattern, profile in self.by_host.items() if matches(pattern, name)), self.default)

    def uses(self, profile: str) -> bool:
        """Whether it uses the profile of this name."""
        return any(profile == used.name for used in (self.default, *self.by_host.values()))

    @property
    def revoked(self) -> frozenset[Serial]:
        """The certificates that the profiles revoke."""
        return self.default.revoked.union(*(profile.revoked for profile in self.by_host.values()))

    def check(self, profile: TlsProfile) -> None:
        """Raises HostError if the profile is unusable for the listener."""
        self.context(profile)

    def context(self, profile: TlsProfile) -> ssl.SSLContext:
        """The context for a new client. Raises HostError."""
        authorities = self._attrs.get("trustedCertsFile")
        if authorities and profile.attrs.get("peersOnly"):
            entity = f"listener {self._attrs['name']}"
            raise HostError(f"{entity}: trustedCertsFile: does not go with peersOnly of sslProfile {profile.name}")
        verify = listener_verify_mode(self._attrs, bool(authorities or profile.attrs.get("caCertFile")))
        return profile.server_context(verify, authorities)


class ConnectorTls:
    """The profile of a connector."""

    def __init__(self, attrs: Mapping[str, Any], profile: TlsProfile) -> None:
        """Raises HostError if the profile is unusable for the connector."""
        self.profile = profile
        self._verify_hostname = attrs.get("verifyHostname") is not False
        self.check(profile)

    def uses(self, profile: str) -> bool:
        """Whether it uses the profile of this name."""
        return profile == self.profile.name

    @property
    def revoked(self) -> frozenset[Serial]:
        """The certificates that the profile revokes."""
        return self.profile.revoked

    def check(self, profile: TlsProfile) -> None:
        """Raises HostError if the profile is unusable for the connector."""
        profile.client_context(self._verify_hostname)

    def context(self) -> ssl.SSLContext:
        """The context for a new connection. Raises HostError."""
        return self.profile.client_context(self._verify_hostname)


def listener_verify_mode(attrs: Mapping[str, Any], has_authorities: bool) -> ssl.VerifyMode:
    """The client certificate mode of a listener; `has_authorities`: its profile has a caCertFile.

    EXTERNAL as the only mechanism cannot work without a certificate, nor can `peerNames`; with other mechanisms, a
    client can connect without one. A certificate that is presented must be valid in both cases.
    """
    mechanisms = str(attrs.get("saslMechanisms") or "").upper().split()
    if mechanisms == ["EXTERNAL"] or attrs.get("peerNames"):
        return ssl.CERT_REQUIRED
    if "EXTERNAL" in mechanisms or (attrs.get("authenticatePeer") and not mechanisms and has_authorities):
        return ssl.CERT_OPTIONAL
    return ssl.CERT_NONE
