"""Validity of certificates and revocation lists from users' Secrets. `now` is always a UTC time with zone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509

SOON = timedelta(days=14)
SOON_SHARE = 5
"""With a validity of less than 70 days, the last fifth counts as "soon", so that daily lists do not warn all day."""
_CRL = b"-----BEGIN X509 CRL-----", b"-----END X509 CRL-----"


@dataclass(frozen=True, slots=True)
class Validity:
    """Start and end of a validity."""

    begin: datetime
    end: datetime

    def soon(self, now: datetime) -> bool:
        """Whether it ends soon, or has ended."""
        return now >= self.end - min(SOON, (self.end - self.begin) / SOON_SHARE)


def of_certificates(pem: bytes) -> Validity | None:
    """Return the validity of the PEM file's certificate that ends first: clients need the whole chain. None if
    unreadable."""
    try:
        found = x509.load_pem_x509_certificates(pem)
    except ValueError:
        return None
    return _first(Validity(one.not_valid_before_utc, one.not_valid_after_utc) for one in found)


def of_revocation_lists(pem: bytes) -> Validity | None:
    """Return the validity of the PEM file's list that ends first. None if unreadable, or if no list has an end."""
    begin, end = _CRL
    try:
        found = [
            x509.load_pem_x509_crl(begin + part.partition(end)[0] + end + b"\n") for part in pem.split(begin)[1:]
        ]
    except ValueError:
        return None
    spans = ((one.last_update_utc, one.next_update_utc) for one in found)
    return _first(Validity(first, last) for first, last in spans if last is not None)


def _first(found: Iterable[Validity]) -> Validity | None:
    return min(found, key=lambda one: one.end, default=None)
