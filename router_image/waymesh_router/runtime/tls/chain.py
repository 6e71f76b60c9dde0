"""Checks whether the certificate chain of a connected peer would still be verified with the current authorities."""

from __future__ import annotations

import ssl
from collections.abc import Container, Iterable
from typing import Any, NamedTuple

from waymesh_router.runtime.tls.der import issuer_at, skip

_ENCODING_DER = 2


class Authority(NamedTuple):
    """A certificate authority: its name and public key in DER. Both stay the same when its certificate is renewed."""

    name: bytes
    key: bytes


def verified_chain(connection: ssl.SSLObject) -> list[bytes]:
    """The verified chain in DER, from the peer's certificate to the authority's; empty without a certificate."""
    if hasattr(connection, "get_verified_chain"):  # since Python 3.13
        return list(connection.get_verified_chain())
    inner: Any = connection._sslobj  # type: ignore[attr-defined]
    return [one.public_bytes(_ENCODING_DER) for one in inner.get_verified_chain() or ()]


def roots(authorities: Iterable[bytes]) -> frozenset[Authority]:
    """The root authorities (with self-signed certificates) among these certificates in DER."""
    return frozenset(
        subject for certificate in authorities if (subject := subject_of(certificate)).name == _issuer(certificate)
    )


def covered(chain: Iterable[bytes], trusted: Container[Authority]) -> bool:
    """Whether the chain contains a trusted root. Dates and revocation lists are not checked."""
    return any(subject_of(certificate) in trusted for certificate in chain)


def subject_of(certificate: bytes) -> Authority:
    """Name and key of the subject of a certificate. Source: RFC 5280, 4.1."""
    at = skip(certificate, skip(certificate, issuer_at(certificate)))  # after the validity
    key = skip(certificate, at)
    return Authority(certificate[at:key], certificate[key : skip(certificate, key)])


def _issuer(certificate: bytes) -> bytes:
    at = issuer_at(certificate)
    return certificate[at : skip(certificate, at)]
