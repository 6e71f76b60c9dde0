"""TLS of listeners, with the sslProfile selected by SNI, and of connectors."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.tls.contexts import TlsProfile
from waymesh_router.runtime.tls.peer_names import matches, refused_name
from waymesh_router.runtime.tls.revocation import Serial
from waymesh_router.runtime.tls.sockets import TlsSocket

WITHOUT_TLS = "the client does not use TLS, but the listener requires it"


class ListenerTls:
    """TLS of a listener: the profiles of sslProfile and sslProfilesByHost."""

    def __init__(self, attrs: Mapping[str, Any], default: TlsProfile, by_host: Mapping[str, TlsProfile]) -> None:
        """`by_host`: the profiles of sslProfilesByHost. Raises HostError if a profile is unusable for the listener."""
        self._attrs = attrs
        self.default = default
        self.by_host = {host.lower(): profile for host, profile in by_host.items()}
        for profile in self.profiles:  # reports an unusable certificate now, not when the first client connects
            self.check(profile)

    @property
    def profiles(self) -> tuple[TlsProfile, ...]:
        """The default profile and those of sslProfilesByHost."""
        return (self.default, *self.by_host.values())

    @property
    def required(self) -> bool:
        """Whether clients without TLS are refused."""
        return any(self._attrs.get(name) for name in ("requireSsl", "requireEncryption", "peerNames"))

    def profile_for(self, host: str | None) -> TlsProfile:
        """The profile for clients that request this host (SNI); None: for clients that request no host."""
        if not host:
            return self.default
        name = host.lower().rstrip(".")
        exact = self.by_host.get(name)
        if exact is not None:
            return exact
        return next((profile for pattern, profile in self.by_host.items() if matches(pattern, name)), self.default)

    def uses(self, profile: str) -> bool:
        """Whether it uses the profile of this name."""
        return any(profile == used.name for used in self.profiles)

    @property
    def revoked(self) -> frozenset[Serial]:
        """The certificates that the crlFiles of the profiles revoke."""
        return frozenset[Serial]().union(*(profile.revoked for profile in self.profiles))

    def check(self, profile: TlsProfile) -> None:
        """Raises HostError if the profile is unusable for the listener."""
        if self.context(profile).verify_mode == ssl.CERT_NONE and self._attrs.get("recheckPeers"):
            needed = "needs client certificates: saslMechanisms EXTERNAL, peerNames or authenticatePeer"
            raise HostError(f"listener {self._attrs['name']}: recheckPeers: {needed}")

    def refused_peer(self, sock: TlsSocket, profile: TlsProfile) -> str | None:
        """The reason to refuse a client after its handshake, None if there is none."""
        wanted = self._attrs.get("peerNames")
        return profile.refused_peer(sock) or (refused_name(wanted, sock.tls.getpeercert()) if wanted else None)

    def outdated(self, sock: TlsSocket, profile: TlsProfile) -> str | None:
        """The reason to refuse a client whose handshake began before the last change of the profile; None if there is
        none. With recheckPeers, a change makes the router check all open connections, but not those in a handshake.
        """
        current = not self._attrs.get("recheckPeers") or sock.tls.context is self.context(profile)
        return None if current else "the sslProfile changed during the handshake"

    def authorities(self, profile: TlsProfile) -> str:
        """The path of the file with trusted certificates; empty without one."""
        return str(self._attrs.get("trustedCertsFile") or profile.attrs.get("caCertFile") or "")

    def context(self, profile: TlsProfile) -> ssl.SSLContext:
        """The context for a new client. Raises HostError."""
        authorities = self._attrs.get("trustedCertsFile")
        if authorities and profile.attrs.get("peersOnly"):
            entity = f"listener {self._attrs['name']}"
            raise HostError(f"{entity}: trustedCertsFile: conflicts with peersOnly of sslProfile {profile.name}")
        verify = listener_verify_mode(self._attrs, bool(authorities or profile.attrs.get("caCertFile")))
        return profile.server_context(verify, authorities)


class ConnectorTls:
    """TLS of a connector."""

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
        """The certificates that the crlFile of the profile revokes."""
        return self.profile.revoked

    def check(self, profile: TlsProfile) -> None:
        """Raises HostError if the profile is unusable for the connector."""
        profile.client_context(self._verify_hostname)

    def context(self) -> ssl.SSLContext:
        """The context for a new connection. Raises HostError."""
        return self.profile.client_context(self._verify_hostname)


def listener_verify_mode(attrs: Mapping[str, Any], has_authorities: bool) -> ssl.VerifyMode:
    """The client certificate mode of a listener; `has_authorities`: it has a file with trusted certificates.

    EXTERNAL as the only mechanism and `peerNames` require a certificate; with other mechanisms, clients can connect
    without one. A certificate that a client presents must be valid in both cases.
    """
    mechanisms = str(attrs.get("saslMechanisms") or "").upper().split()
    if mechanisms == ["EXTERNAL"] or attrs.get("peerNames"):
        return ssl.CERT_REQUIRED
    if "EXTERNAL" in mechanisms or (attrs.get("authenticatePeer") and not mechanisms and has_authorities):
        return ssl.CERT_OPTIONAL
    return ssl.CERT_NONE
