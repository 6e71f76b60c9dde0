"""Certificates of a mesh: its own authority, leaves, renewal, and how one authority follows another without a gap."""

from __future__ import annotations

from .issue import Credential, expires, fingerprint, issue, new_ca, renewal_due, split_pem
from .mesh import MeshTls, Phase, TlsRequest, TlsView
from .rollover import next_tls

__all__ = [
    "Credential",
    "MeshTls",
    "Phase",
    "TlsRequest",
    "TlsView",
    "expires",
    "fingerprint",
    "issue",
    "new_ca",
    "next_tls",
    "renewal_due",
    "split_pem",
]
