"""Certificate revocation lists (crlFile): which open connections to close when a list is reloaded."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from waymesh_router.runtime.tls.der import element, skip
from waymesh_router.runtime.tls.sockets import TlsSocket

_BLOCK = re.compile(rb"-----BEGIN X509 CRL-----(.*?)-----END X509 CRL-----", re.DOTALL)
_INTEGER, _SEQUENCE, _VERSION = 0x02, 0x30, 0xA0
_TIMES = (0x17, 0x18)
"""Tags of UTCTime and GeneralizedTime."""


ROLES = ("inter-router", "edge")
"""Roles of connections with other routers."""


class Serial(NamedTuple):
    """The identity of a certificate in a revocation list: its issuer and serial number, both in DER."""

    issuer: bytes
    number: bytes


class Trust(Protocol):
    """TLS of a listener or connector."""

    @property
    def revoked(self) -> frozenset[Serial]:
        """The certificates that its profiles revoke."""


class Endpoint(Protocol):
    """A listener or connector."""

    attrs: Mapping[str, Any]

    @property
    def tls(self) -> Trust | None:
        """None without TLS."""


def revoked_serials(pem: bytes) -> frozenset[Serial]:
    """The certificates revoked by the lists in a PEM text. Source: RFC 5280, 5.1. Raises ValueError."""
    return frozenset(serial for block in _BLOCK.findall(pem) for serial in _revoked(base64.b64decode(block)))


def serial_of(certificate: bytes) -> Serial:
    """Issuer and serial number of a certificate in DER. Source: RFC 5280, 4.1."""
    at = element(certificate, element(certificate, 0)[1])[1]
    if certificate[at] == _VERSION:
        at = skip(certificate, at)
    number, signature = at, skip(certificate, at)
    issuer = skip(certificate, signature)
    return Serial(certificate[issuer : skip(certificate, issuer)], certificate[number:signature])


def of_revoked_router(sock: object, endpoint: Endpoint) -> bool:
    """Whether an open connection is with a router whose certificate was revoked. False for connections of clients."""
    if endpoint.tls is None or endpoint.attrs.get("role") not in ROLES or not isinstance(sock, TlsSocket):
        return False
    certificate = sock.tls.getpeercert(binary_form=True)
    return certificate is not None and serial_of(certificate) in endpoint.tls.revoked


def _revoked(der: bytes) -> Iterator[Serial]:
    try:
        _, at, end = element(der, element(der, 0)[1])
        if der[at] == _INTEGER:  # the version
            at = skip(der, at)
        issuer_at = skip(der, at)
        at = skip(der, issuer_at)
        issuer = der[issuer_at:at]
        while at < end and der[at] in _TIMES:
            at = skip(der, at)
        if at >= end or der[at] != _SEQUENCE:
            return
        _, at, end = element(der, at)
        while at < end:
            _, number, _ = element(der, at)
            yield Serial(issuer, der[number : skip(der, number)])
            at = skip(der, at)
    except IndexError:
        raise ValueError("truncated revocation list") from None
