"""What a mesh has for TLS: the contents of its three Secrets, and what its routers say about them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from .certificates import Credential

OPERATOR = "waymesh-operator"
"""Common name of the operator's certificate."""
Data = Mapping[str, bytes]
"""The decoded data of a Secret."""


class Phase(enum.Enum):
    """Where a mesh is between two authorities."""

    STABLE = "stable"
    """One authority signs, and it alone is trusted."""
    TRUSTING = "trusting"
    """The old one still signs; the next one is trusted too, as soon as all routers have taken that over."""
    REISSUED = "reissued"
    """The new one signs; the old one is trusted until all routers show a certificate of the new one."""


@dataclass(frozen=True, slots=True)
class TlsRequest:
    """What is asked for: the mesh, the cluster's domain, and the number of the authority (a higher one: a new one)."""

    router: str
    namespace: str
    cluster_domain: str = "cluster.local"
    authority: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """DNS names of the routers' certificate."""
        mesh, clients = f"*.{self.router}-mesh.{self.namespace}.svc", f"{self.router}.{self.namespace}.svc"
        both = (mesh, f"{mesh}.{self.cluster_domain}", clients, f"{clients}.{self.cluster_domain}")
        return (*both, "localhost")

    @property
    def router_names(self) -> tuple[str, ...]:
        """Which of these names a router must have to come in at another one's mesh listener."""
        return (f"*.{self.router}-mesh.{self.namespace}.svc",)

    @property
    def operator_names(self) -> tuple[str, ...]:
        """DNS names of the operator's certificate for this mesh. No router's certificate has them, no other mesh's."""
        return (f"{self.router}.{OPERATOR}.{self.namespace}.svc",)


@dataclass(frozen=True, slots=True)
class TlsView:
    """What a handshake with a router shows.

    `presented` is the SHA-256 fingerprint (hex) of its certificate, `trusts_next` whether it took `MeshTls.probe`,
    which the next authority has signed.
    """

    presented: str = ""
    not_after: datetime | None = None
    trusts_next: bool = False


@dataclass(frozen=True, slots=True)
class MeshTls:
    """The certificates as they should be now.

    `previous` is a PEM bundle of authorities that are on their way out; `message` says in words what is waited for.
    """

    phase: Phase
    generation: int
    authority: Credential
    leaf: Credential
    operator: Credential
    next: Credential | None = None
    probe: Credential | None = None
    previous: bytes = b""
    message: str = ""

    @property
    def bundle(self) -> bytes:
        """The authorities to trust, PEM, as ca.crt has them."""
        following = self.next.certificate if self.next else b""
        return self.authority.certificate + following + self.previous

    def secrets(self, router: str) -> dict[str, dict[str, bytes]]:
        """The data of the Secrets of a Router, by Secret name."""
        return {
            f"{router}-ca": self._authorities(),
            f"{router}-tls": self._shape(self.leaf),
            f"{router}-operator-tls": self._shape(self.operator),
        }

    def _shape(self, credential: Credential) -> dict[str, bytes]:
        """As cert-manager writes it."""
        return {"ca.crt": self.bundle, "tls.crt": credential.certificate, "tls.key": credential.key}

    def _authorities(self) -> dict[str, bytes]:
        data = {
            "generation": str(self.generation).encode(),
            "tls.crt": self.authority.certificate,
            "tls.key": self.authority.key,
        }
        for name, credential in (("next", self.next), ("probe", self.probe)):
            if credential is not None:
                data |= {f"{name}.crt": credential.certificate, f"{name}.key": credential.key}
        return data | ({"previous.crt": self.previous} if self.previous else {})
