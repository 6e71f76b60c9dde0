"""The validity of the router's own certificates: `ssl` reports it only for certificates of peers."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

from waymesh_router.peers.certificate import Validity
from waymesh_router.runtime.tls.der import element, issuer_at, skip

BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
"""Lines around a certificate in PEM. Source: RFC 7468, 5.1."""
FORMATS = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""UTCTime and GeneralizedTime. Source: RFC 5280, 4.1.2.5."""


def encoded(pem: str) -> Iterator[bytes]:
    """The certificates in a PEM text, in DER. Raises ValueError."""
    at = 0
    while (begin := pem.find(BEGIN, at)) >= 0:
        at = pem.find(END, begin) + len(END)
        if at < begin:
            raise ValueError("a certificate without its END line")
        yield ssl.PEM_cert_to_DER_cert(pem[begin:at])


def validity_of(pem: str) -> Validity | None:
    """The validity of the first certificate in a PEM text; None if it cannot be parsed."""
    try:
        return _validity(next(encoded(pem)))
    except (ValueError, IndexError, KeyError, StopIteration):
        return None


def _validity(der: bytes) -> Validity:
    _, begin, _ = element(der, skip(der, issuer_at(der)))
    return Validity(_time(der, begin), _time(der, skip(der, begin)))


def _time(der: bytes, at: int) -> float:
    tag, start, end = element(der, at)
    return datetime.strptime(der[start:end].decode("ascii"), FORMATS[tag]).replace(tzinfo=UTC).timestamp()
