"""The RouterLink resource as a typed value: how the routers of a Router connect to another mesh."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from .router import Manifest, Ref, local_ref, ref_of, server_metadata

ROLES = ("inter-router", "edge")
"""Roles of listeners to which the routers of other meshes connect, and of RouterLinks."""
TOKEN_KEYS = ("addresses", "ca.crt", "expires", "mesh", "role", "tls.crt", "tls.key")
"""Keys of a token Secret, as `waymesh link create-token` writes it."""


@dataclass(frozen=True, slots=True)
class RouterLink:
    """Connections of the routers of a Router to those of another mesh."""

    ref: Ref
    router: Ref
    # inter-router or edge
    role: str = "inter-router"
    # Name of the Secret with addresses, certificate and key; empty: the endpoints are set below.
    token: str = ""
    # (host, port), tried in turn.
    endpoints: tuple[tuple[str, int], ...] = ()
    # Name of the Secret with ca.crt, tls.crt and tls.key for the endpoints; empty: without TLS.
    tls: str = ""
    verify_hostname: bool = True
    cost: int = 1
    # All, One or List; `ordinals` are the routers of a List.
    placement: str = "All"
    ordinals: tuple[int, ...] = ()
    created: str = ""
    uid: str = ""
    generation: int = 0

    @property
    def secret(self) -> str:
        """Name of the Secret with certificate and key; empty without TLS."""
        return self.token or self.tls


def parse_router_link(manifest: Manifest) -> RouterLink:
    """The RouterLink of a validated manifest; its Router and Secret are in the same namespace."""
    spec = manifest["spec"]
    placement = spec["placement"]
    return RouterLink(
        ref=ref_of(manifest),
        router=local_ref(manifest, "routerRef"),
        role=spec["role"],
        token=spec.get("tokenSecretRef", {}).get("name", ""),
        endpoints=tuple((item["host"], item["port"]) for item in spec.get("endpoints", ())),
        tls=spec["tls"]["secretRef"]["name"] if "tls" in spec else "",
        verify_hostname=spec["verifyHostname"],
        cost=spec["cost"],
        placement=placement["routers"],
        ordinals=tuple(sorted(placement.get("ordinals", ()))),
        **server_metadata(manifest),
    )


@dataclass(frozen=True, slots=True)
class Token:
    """The contents of a token besides certificate and key."""

    endpoints: tuple[tuple[str, int], ...]
    mesh: str
    role: str
    expires: datetime


def read_token(data: Mapping[str, bytes]) -> Token:
    """Parse the token in a Secret with all of TOKEN_KEYS. Raises ValueError that names the invalid key."""
    text = {key: _text(key, data[key]) for key in ("addresses", "expires", "mesh", "role")}
    try:
        expires = datetime.fromisoformat(text["expires"])
    except ValueError:
        raise ValueError("expires: not a time") from None
    if expires.tzinfo is None:
        raise ValueError("expires: a time without its zone")
    endpoints = token_endpoints(text["addresses"])
    if not endpoints:
        raise ValueError("addresses: has none")
    return Token(endpoints, text["mesh"], text["role"], expires)


def _text(key: str, value: bytes) -> str:
    try:
        return value.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise ValueError(f"{key}: not UTF-8 text") from None


def token_endpoints(text: str) -> tuple[tuple[str, int], ...]:
    """Return (host, port) of each line `host:port` of a token's `addresses`. Raises ValueError for other lines."""
    return tuple(_endpoint(line.strip()) for line in text.splitlines() if line.strip())


_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}(%[A-Za-z0-9._-]+)?\]")


def _endpoint(line: str) -> tuple[str, int]:
    host, _, port = line.rpartition(":")
    if not _HOST.fullmatch(host) or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise ValueError(f"addresses: {line[:80]!r} is not host:port")
    return host.strip("[]"), int(port)
