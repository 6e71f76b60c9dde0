"""Elements of DER, for the few fields of certificates and revocation lists that `ssl` does not report.

A library for all of X.509 would add start-up time and memory.
"""

from __future__ import annotations

_VERSION = 0xA0


def element(der: bytes, at: int) -> tuple[int, int, int]:
    """Tag, start and end of the content of the element at `at`. Raises IndexError past the end."""
    size, start = der[at + 1], at + 2
    if size & 0x80:
        count = size & 0x7F
        size, start = int.from_bytes(der[start : start + count], "big"), start + count
    return der[at], start, start + size


def skip(der: bytes, at: int) -> int:
    """The start of the element after the one at `at`."""
    return element(der, at)[2]


def issuer_at(certificate: bytes) -> int:
    """The start of the issuer field of a certificate; validity, subject and key follow. Source: RFC 5280, 4.1."""
    at = element(certificate, element(certificate, 0)[1])[1]
    if certificate[at] == _VERSION:
        at = skip(certificate, at)
    return skip(certificate, skip(certificate, at))  # serial number and signature
