"""Expiry of a certificate: the only field of X.509 that the router needs and `ssl` does not report for its own one."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

from waymesh_router.runtime.der import element

BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
VERSION = 0xA0
"""Tag of the optional first field of TBSCertificate. Source: RFC 5280, 4.1."""
FORMATS = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""UTCTime and GeneralizedTime. Source: RFC 5280, 4.1.2.5."""


def encoded(pem: str) -> Iterator[bytes]:
    """The certificates in a PEM text, in DER. Raises ValueError."""
    at = 0
    while (begin := pem.find(BEGIN, at)) >= 0:
        at = pem.find(END, begin) + len(END)
        if at < begin:
            raise ValueError("a certificate without an end")
        yield ssl.PEM_cert_to_DER_cert(pem[begin:at])


def not_after(pem: str) -> float | None:
    """Expiry time, in seconds since 1970, of the first certificate in a PEM text; None if it is not readable."""
    try:
        return _not_after(next(encoded(pem)))
    except (ValueError, IndexError, KeyError, StopIteration):
        return None


def _not_after(der: bytes) -> float:
    _, certificate, _ = element(der, 0)
    _, at, _ = element(der, certificate)
    if der[at] == VERSION:
        at = element(der, at)[2]
    for _ in ("serialNumber", "signature", "issuer"):
        at = element(der, at)[2]
    _, validity, _ = element(der, at)
    tag, start, end = element(der, element(der, validity)[2])
    return datetime.strptime(der[start:end].decode("ascii"), FORMATS[tag]).replace(tzinfo=UTC).timestamp()
