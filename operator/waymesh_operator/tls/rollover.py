"""The certificates of a mesh (contents of its three Secrets), and their next state.

Invariant: every certificate that a router or the operator presents was signed by an authority that every running router
already trusts. So a new authority is first trusted everywhere, then signs, and the old one is removed only when no
router presents a certificate of it any more. All state is in the Secrets: a restarted operator continues from
there.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from .certificates import (
    Credential,
    fingerprint,
    issue,
    issued_by,
    new_ca,
    readable,
    renewal_due,
    split_pem,
    subject_names,
)

OPERATOR = "waymesh-operator"
"""Common name of the operator's certificate."""
Data = Mapping[str, bytes]
"""The decoded data of a Secret."""


class Phase(enum.Enum):
    """The progress of a rollover from one authority to the next."""

    STABLE = "stable"
    """One authority signs, and only it is trusted."""
    TRUSTING = "trusting"
    """The old one still signs; trust in the next one is being distributed to all routers."""
    REISSUED = "reissued"
    """The new one signs; the old one is trusted until all routers present a certificate of the new one."""


@dataclass(frozen=True, slots=True)
class TlsRequest:
    """The mesh, the cluster's domain, and the number of the authority (a higher number requests a new one)."""

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
        """The names that a router's certificate must have to connect to the mesh listener of another one."""
        return (f"*.{self.router}-mesh.{self.namespace}.svc",)

    @property
    def operator_names(self) -> tuple[str, ...]:
        """DNS names of the operator's certificate for this mesh. No other certificate has them."""
        return (f"{self.router}.{OPERATOR}.{self.namespace}.svc",)


@dataclass(frozen=True, slots=True)
class TlsView:
    """The result of a TLS handshake with a router.

    `presented` is the SHA-256 fingerprint (hex) of its certificate, `trusts_next` whether it accepted `MeshTls.probe`,
    which the next authority has signed.
    """

    presented: str = ""
    not_after: datetime | None = None
    trusts_next: bool = False


@dataclass(frozen=True, slots=True)
class MeshTls:
    """The desired certificates.

    `previous` is a PEM bundle of the authorities that are being replaced; `message`: what the rollover waits for.
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
        """Return the Secret's data in cert-manager's format."""
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


_NONE = Credential(b"", b"")


def next_tls(
    request: TlsRequest, seen: Mapping[str, Data | None], routers: Mapping[str, TlsView], now: datetime
) -> MeshTls:
    """Return the desired certificates, at most one step ahead of `seen`.

    `seen` holds the Secrets `<router>-ca`, `-tls`, `-operator-tls` (None: missing). They must be read from the API
    server and not from a cache: for a missing Secret, keys are generated. `routers` has an entry for every existing
    router, an empty one for those that did not answer. The result equals `seen` when there is nothing to do.
    """
    ca = seen.get(f"{request.router}-ca") or {}
    leaf_data = seen.get(f"{request.router}-tls") or {}
    operator_data = seen.get(f"{request.router}-operator-tls") or {}
    tls = _advanced(_read(request, ca, leaf_data, now), leaf_data, request, routers, now)
    leaf = _leaf(_credential(leaf_data), tls.authority, request.router, request.names, now)
    operator = _leaf(_credential(operator_data), tls.authority, OPERATOR, request.operator_names, now)
    probe = None
    if tls.next is not None:
        probe = _leaf(tls.probe or _NONE, tls.next, OPERATOR, request.operator_names, now)
    return dataclasses.replace(tls, leaf=leaf, operator=operator, probe=probe)


def _read(request: TlsRequest, ca: Data, leaf: Data, now: datetime) -> MeshTls:
    """Read the state in the Secrets, without leaf certificates; a new state if they contain nothing usable."""
    authority = Credential(ca.get("tls.crt", b""), ca.get("tls.key", b""))
    trusted = split_pem(leaf.get("ca.crt", b""))
    if not authority.whole:
        former = next((pem for pem in (authority.certificate, *trusted) if pem and readable(pem)), None)
        if former is None:
            authority = new_ca(_title(request), now)
            return MeshTls(Phase.STABLE, request.authority, authority, _NONE, _NONE)
        # Its certificate is still trusted, although signing with it is no longer possible.
        authority = Credential(former, b"")
    following = Credential(ca.get("next.crt", b""), ca.get("next.key", b""))
    probe = Credential(ca.get("probe.crt", b""), ca.get("probe.key", b""))
    previous = b"".join(pem for pem in split_pem(ca.get("previous.crt", b"")) if readable(pem))
    phase = Phase.TRUSTING if following.whole else Phase.REISSUED if previous else Phase.STABLE
    return MeshTls(
        phase,
        _number(ca.get("generation", b""), request.authority),
        authority,
        _NONE,
        _NONE,
        next=following if following.whole else None,
        probe=probe if following.whole and probe.whole else None,
        previous=previous,
    )


def _advanced(tls: MeshTls, leaf: Data, request: TlsRequest, routers: Mapping[str, TlsView], now: datetime) -> MeshTls:
    match tls.phase:
        case Phase.STABLE:
            return _begun(tls, request, now)
        case Phase.TRUSTING:
            return _switched(tls, request, routers)
        case Phase.REISSUED:
            return _dropped(tls, leaf, routers)


def _begun(tls: MeshTls, request: TlsRequest, now: datetime) -> MeshTls:
    """Begin with a new authority if renewal is due, one is requested, or the key of the old one is lost."""
    asked = request.authority > tls.generation
    if tls.authority.key and not asked and not renewal_due(tls.authority.certificate, now):
        return tls
    following = new_ca(_title(request), now)
    message = "distributing a new authority to the routers"
    return dataclasses.replace(tls, phase=Phase.TRUSTING, next=following, message=message)


def _switched(tls: MeshTls, request: TlsRequest, routers: Mapping[str, TlsView]) -> MeshTls:
    """Switch: the next authority signs as soon as every router trusts it."""
    waiting = [name for name, view in sorted(routers.items()) if not view.trusts_next]
    if waiting or tls.next is None:
        return dataclasses.replace(tls, message=f"the new authority is not yet trusted by {', '.join(waiting)}")
    return dataclasses.replace(
        tls,
        phase=Phase.REISSUED,
        generation=max(tls.generation, request.authority),
        authority=tls.next,
        next=None,
        probe=None,
        previous=tls.authority.certificate + tls.previous,
        message="distributing certificates of the new authority to the routers",
    )


def _dropped(tls: MeshTls, leaf: Data, routers: Mapping[str, TlsView]) -> MeshTls:
    """Drop the old authority as soon as every router presents the certificate of the new one."""
    current = leaf.get("tls.crt", b"")
    shown = fingerprint(current) if issued_by(current, tls.authority.certificate) else ""
    waiting = [name for name, view in sorted(routers.items()) if not shown or view.presented != shown]
    if waiting or not shown:
        return dataclasses.replace(tls, message=f"the new certificate is not yet used by {', '.join(waiting)}")
    return dataclasses.replace(tls, phase=Phase.STABLE, previous=b"", message="")


def _leaf(
    have: Credential, authority: Credential, common_name: str, names: tuple[str, ...], now: datetime
) -> Credential:
    """Return the existing leaf if it is valid or the authority cannot sign, else a new one."""
    good = (
        have.whole
        and issued_by(have.certificate, authority.certificate)
        and subject_names(have.certificate) == frozenset(names)
        and not renewal_due(have.certificate, now)
    )
    return have if good or not authority.key else issue(authority, common_name, names, now)


def _credential(data: Data) -> Credential:
    return Credential(data.get("tls.crt", b""), data.get("tls.key", b""))


def _title(request: TlsRequest) -> str:
    return f"{request.namespace}/{request.router}"


def _number(text: bytes, otherwise: int) -> int:
    return int(text) if text.isdigit() else otherwise
