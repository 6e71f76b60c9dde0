"""The chain by which a peer's certificate was verified: whether authorities of today would still verify it."""

from __future__ import annotations

import ssl
from collections.abc import Container, Iterable
from typing import Any, NamedTuple

from waymesh_router.runtime.der import issuer_at, skip

_ENCODING_DER = 2


class Authority(NamedTuple):
    """Who signs: its name and its public key, both in DER. A renewed certificate of an authority has the same."""

    name: bytes
    key: bytes


def verified_chain(connection: ssl.SSLObject) -> list[bytes]:
    """The certificates of the peer, in DER, from its own to that of the authority; empty without one."""
    if hasattr(connection, "get_verified_chain"):  # since Python 3.13
        return list(connection.get_verified_chain())
    inner: Any = connection._sslobj  # type: ignore[attr-defined]
    return [one.public_bytes(_ENCODING_DER) for one in inner.get_verified_chain() or ()]


def roots(authorities: Iterable[bytes]) -> frozenset[Authority]:
    """The authorities, given by certificates in DER, at which a chain may end: those that sign themselves."""
    return frozenset(
        subject for certificate in authorities if (subject := subject_of(certificate)).name == _issuer(certificate)
    )


def covered(chain: Iterable[bytes], trusted: Container[Authority]) -> bool:
    """Whether one of the roots has signed a certificate of the chain. Neither dates nor revocation lists are looked at.
    """
    return any(subject_of(certificate) in trusted for certificate in chain)


def subject_of(certificate: bytes) -> Authority:
    """Name and key of the subject of a certificate. Source: RFC 5280, 4.1."""
    at = skip(certificate, skip(certificate, issuer_at(certificate)))  # after the validity
    key = skip(certificate, at)
    return Authority(certificate[at:key], certificate[key : skip(certificate, key)])


def _issuer(certificate: bytes) -> bytes:
    at = issuer_at(certificate)
    return certificate[at : skip(certificate, at)]
