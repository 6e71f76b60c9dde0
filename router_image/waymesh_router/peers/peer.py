"""The peer of a transport, as far as the router needs to know it."""

from __future__ import annotations

from dataclasses import dataclass

from waymesh_router.peers.certificate import PeerCertificate


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a transport. `host`: address and port as text; `tls_ssf`: strength in bits."""

    host: str
    tls: bool = False
    tls_proto: str | None = None
    tls_cipher: str | None = None
    tls_ssf: int = 0
    external_user: str | None = None
    certificate: PeerCertificate | None = None

    @property
    def address(self) -> str:
        """The numeric address, without port and zone."""
        return self.host.rpartition(":")[0].partition("%")[0]


def failed_text(peer: str, reason: str) -> str:
    """connectionMsg of a connector whose connection to `peer` (host:port as configured) failed; begins as in Dispatch.
    """
    return f"Connection to {peer} failed: {reason}"
