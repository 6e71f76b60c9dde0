"""The certificate authority for routers of other meshes: it issues certificates and revokes them, and can issue the
certificate of the listener to which they connect.

It is stored in the Secret that a listener with role inter-router or edge names as clientAuthorities. Routers read
`ca.crt` and `ca.crl`; `ca.key` and `tokens.json`, the record of issued tokens, stay in the Secret.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from waymesh_operator.errors import WaymeshError

from .certificates import SKEW, Credential, Leaf, expires, issue, new_ca, signer_of

RECORD = "tokens.json"


@dataclass(frozen=True, slots=True)
class Issued:
    """The record of one token: serial number of its certificate, when that expires, and when it was revoked, if so."""

    name: str
    serial: int
    expires: datetime
    revoked: datetime | None = None


@dataclass(frozen=True, slots=True)
class LinkAuthority:
    """An authority and the tokens that it issued, oldest first."""

    ca: Credential
    issued: tuple[Issued, ...] = ()

    def valid(self, name: str, now: datetime) -> Issued | None:
        """The token of this name that is neither revoked nor expired."""
        return next((one for one in self.issued if one.name == name and not one.revoked and one.expires > now), None)

    def issue(self, name: str, mesh: str, days: int, now: datetime) -> tuple[LinkAuthority, Credential]:
        """Issue a client certificate with the DNS name `<name>.<mesh>.link`. Raises WaymeshError if `name` has one."""
        if self.valid(name, now):
            raise WaymeshError(f"token {name} exists already: revoke it, or choose another name")
        end = expires(self.ca.certificate)
        if now + timedelta(days=days) > end:
            raise WaymeshError(f"the authority expires on {end:%Y-%m-%d}: choose fewer days than {days}")
        dns = f"{name}.{mesh}.link"
        made = issue(self.ca, dns, [dns], now, Leaf(days, (ExtendedKeyUsageOID.CLIENT_AUTH,)))
        serial = x509.load_pem_x509_certificate(made.certificate).serial_number
        return replace(self, issued=(*self.issued, Issued(name, serial, expires(made.certificate)))), made

    def issue_listener(self, names: Sequence[str], now: datetime) -> Credential:
        """Issue a certificate for the listener itself, with these DNS names and IP addresses. It is for servers only,
        so that nobody can connect with it, and valid as long as the authority."""
        days = (expires(self.ca.certificate) - now).days
        return issue(self.ca, names[0], names, now, Leaf(days, (ExtendedKeyUsageOID.SERVER_AUTH,)))

    def revoke(self, name: str, now: datetime) -> LinkAuthority:
        """Return the authority with this token revoked. Raises WaymeshError if there is no such token."""
        wanted = self.valid(name, now)
        if wanted is None:
            known = ", ".join(sorted(one.name for one in self.issued if self.valid(one.name, now) is one)) or "none"
            raise WaymeshError(f"no valid token {name}; valid are: {known}")
        issued = (replace(one, revoked=now) if one is wanted else one for one in self.issued)
        return replace(self, issued=tuple(issued))

    def data(self, now: datetime) -> dict[str, bytes]:
        """The contents of its Secret."""
        rows = [_row(one) for one in self.issued]
        return {
            "ca.crt": self.ca.certificate,
            "ca.key": self.ca.key,
            "ca.crl": self._list(now),
            RECORD: (json.dumps(rows, indent=1) + "\n").encode(),
        }

    def _list(self, now: datetime) -> bytes:
        """Return the revocation list; it is valid as long as the authority, because only a revocation creates a new
        list."""
        authority = x509.load_pem_x509_certificate(self.ca.certificate)
        end = authority.not_valid_after_utc
        builder = x509.CertificateRevocationListBuilder(authority.subject, now - SKEW, end)
        for one in self.issued:
            if one.revoked is not None:
                entry = x509.RevokedCertificateBuilder(one.serial, one.revoked)
                builder = builder.add_revoked_certificate(entry.build())
        return builder.sign(signer_of(self.ca), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def new_link_authority(mesh: str, now: datetime) -> LinkAuthority:
    """Create an authority without tokens."""
    return LinkAuthority(new_ca(f"{mesh} links", now))


def read_link_authority(secret: str, data: Mapping[str, bytes]) -> LinkAuthority:
    """Return the authority in the Secret with this name. Raises WaymeshError if `waymesh link` did not create it."""
    ca = Credential(data.get("ca.crt", b""), data.get("ca.key", b""))
    if not ca.whole:
        raise WaymeshError(
            f"Secret {secret} has no authority of Waymesh (ca.crt with ca.key): issue and revoke certificates with the "
            "tools by which it was made, or name a Secret that does not exist"
        )
    try:
        rows = json.loads(data.get(RECORD, b"[]"))
        return LinkAuthority(ca, tuple(_issued(row) for row in rows))
    except (ValueError, KeyError, TypeError) as error:
        raise WaymeshError(f"Secret {secret}: {RECORD} cannot be read: {error}") from None


def _row(one: Issued) -> dict[str, Any]:
    row = {"name": one.name, "serial": f"{one.serial:x}", "expires": one.expires.isoformat()}
    return row | ({"revoked": one.revoked.isoformat()} if one.revoked else {})


def _issued(row: Mapping[str, Any]) -> Issued:
    revoked = datetime.fromisoformat(row["revoked"]) if "revoked" in row else None
    return Issued(row["name"], int(row["serial"], 16), datetime.fromisoformat(row["expires"]), revoked)
