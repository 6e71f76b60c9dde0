"""Selects the TLS clients that a listener accepts, by the DNS names of their certificates (`peerNames`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def refused_name(peer_names: str, certificate: Mapping[str, Any] | None) -> str | None:
    """The reason to refuse a client, with the names in its certificate; None if the client is accepted.

    `peer_names`: the attribute. `certificate`: verified, as `ssl` reports it.
    """
    names = dns_names(certificate or {})
    if any(matches(pattern, name) for pattern in peer_names.split() for name in names):
        return None
    has = " ".join(names) or "no DNS name"
    return f"the certificate of the peer has {has}; expected {peer_names}"


def dns_names(certificate: Mapping[str, Any]) -> Sequence[str]:
    """The DNS names in the subject alternative names."""
    return [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]


def matches(pattern: str, name: str) -> bool:
    """Whether a certificate's name matches a pattern. `*.x` matches `a.x` and `*.x`, but neither `x` nor `a.b.x`."""
    wanted, has = pattern.lower(), name.lower()
    label, dot, rest = has.partition(".")
    return has == wanted or (wanted.startswith("*.") and dot + rest == wanted[1:] and label not in ("", "*"))
