"""Expiry of certificates and revocation lists from users' Secrets for listeners and RouterLinks: rows, conditions,
metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Router
from waymesh_operator.resources.router_link import RouterLink
from waymesh_operator.tls.certificates import Validity, of_certificates, of_revocation_lists

from .conditions import Condition, MeshSnapshot, timestamp

EXPIRING = "CertificateExpiring"
_FIELDS = ("certificateNotAfter", "authoritiesNotAfter", "revocationNotAfter")
SHOWN = 3
"""Maximum number of names in a message."""
_Reader = Callable[[bytes], Validity | None]


@dataclass(frozen=True, slots=True)
class _End:
    """A certificate or list of a listener that expires."""

    listener: str
    # Field of the row.
    field: str
    what: str
    secret: str
    validity: Validity


def expiry_rows(router: Router, seen: MeshSnapshot) -> list[dict[str, Any]]:
    """Return when the certificates and authorities of each listener that has some expire."""
    rows: dict[str, dict[str, Any]] = {}
    for one in _ends(router, seen):
        rows.setdefault(one.listener, {"name": one.listener})[one.field] = timestamp(one.validity.end)
    return list(rows.values())


def expiring(router: Router, seen: MeshSnapshot) -> Condition:
    """Return the condition: whether one of them expires soon or has expired."""
    found = sorted(
        (one for one in _ends(router, seen) if one.validity.soon(seen.now)), key=lambda one: one.validity.end
    )
    if not found:
        return Condition(EXPIRING, False, "NotExpiring", "no certificate that a listener names ends soon")
    told = [_text(one, seen.now) for one in found[:SHOWN]]
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    ended = found[0].validity.end <= seen.now
    return Condition(EXPIRING, True, "CertificateEnded" if ended else "CertificateEndsSoon", "; ".join(told) + more)


def link_validity(link: RouterLink, seen: MeshSnapshot | None) -> Validity | None:
    """Return the validity of the routers' client certificate for the other mesh; None if there is none or it is
    unreadable."""
    data = seen.secrets.get(link.secret) if seen is not None and link.secret else None
    return of_certificates((data or {}).get("tls.crt", b""))


def link_expiring(link: RouterLink, validity: Validity, now: datetime) -> Condition:
    """Return the condition: whether it expires soon or has expired."""
    if not validity.soon(now):
        return Condition(EXPIRING, False, "NotExpiring", "the certificate does not end soon")
    ended = validity.end <= now
    what = f"the certificate in Secret {link.secret} {'ended' if ended else 'ends'} at {timestamp(validity.end)}"
    return Condition(EXPIRING, True, "CertificateEnded" if ended else "CertificateEndsSoon", what)


def ends_in_seconds(status: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """Return by listener and field when certificates and lists in a Router's status expire, in seconds since 1970."""
    return {
        (row["name"], field): datetime.fromisoformat(moment).timestamp()
        for row in status.get("listeners") or ()
        for field, moment in row.items()
        if field in _FIELDS
    }


def _text(one: _End, now: datetime) -> str:
    verb = "ended" if one.validity.end <= now else "ends"
    return f"listener {one.listener}: {one.what} in Secret {one.secret} {verb} at {timestamp(one.validity.end)}"


def _ends(router: Router, seen: MeshSnapshot) -> Iterable[_End]:
    for listener in router.listeners:
        for field, what, secret, key, read in _parts(listener):
            validity = read((seen.secrets.get(secret) or {}).get(key, b""))
            if validity is not None:
                yield _End(listener.name, field, what, secret, validity)


def _parts(listener: Listener) -> Iterable[tuple[str, str, str, str, _Reader]]:
    if listener.certificate:
        yield "certificateNotAfter", "the certificate", listener.certificate, "tls.crt", of_certificates
    if listener.authorities:
        yield "authoritiesNotAfter", "an authority", listener.authorities, "ca.crt", of_certificates
        if listener.revocation:
            yield "revocationNotAfter", "a revocation list", listener.authorities, "ca.crl", of_revocation_lists
