"""Connectors to other routers as RouterLinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .brokers import endpoints
from .names import resource_name
from .networks import position, targets
from .notes import Translation
from .profiles import tls_fields
from .source import Entity, Source

_KNOWN = ("host", "port", "role", "cost", "sslProfile", "verifyHostname", "saslMechanisms", "failoverUrls")


def link_of(found: Translation, entity: Entity, source: Source, sources: Sequence[Source], port: int) -> None:
    """Add a RouterLink for a connector of role inter-router or edge, unless the routers of the Router are its peers."""
    peers = targets(entity, source, sources) if entity.text("role") == "inter-router" else []
    if peers:
        if len(peers) > 1:
            ids = ", ".join(peer.router.text("id") for peer in peers)
            found.note(entity, f"host: {entity.text('host')} is taken as one of {ids}, which listen on its port")
        return
    found.not_taken(entity, (*_KNOWN, "saslUsername", "saslPassword"))
    if entity.text("saslUsername"):
        found.note(entity, "saslUsername: a RouterLink logs in with a certificate or not at all; see its tls")
    spec: dict[str, Any] = {"endpoints": endpoints(entity, port)}
    if entity.text("role") == "edge":
        spec["role"] = "edge"
    elif entity.text("cost") not in ("", "1"):
        spec["cost"] = entity.attributes["cost"]
    if entity.text("sslProfile"):
        spec |= _tls(found, entity, source)
    _add(found, entity, spec, position(source, sources), len(sources))


def _tls(found: Translation, entity: Entity, source: Source) -> dict[str, Any]:
    secret = f"{resource_name(entity.text('sslProfile'))}-router"
    profile = source.profile(entity.text("sslProfile")) or entity
    files = ", ".join(filter(None, (profile.text(name) for name in ("caCertFile", "certFile", "privateKeyFile"))))
    others = ", ".join(filter(None, (profile.text(name) for name in ("caCert", "credentials"))))
    made_of = f": the files {files}" if files else f": from the Secrets {others}" if others else ""
    for name in tls_fields(profile):
        found.lose(profile, f"{name}: a RouterLink accepts all ciphers of TLSv1.2 and TLSv1.3")
    found.note(entity, f"create the Secret {secret} with ca.crt, tls.crt and tls.key{made_of}")
    spec: dict[str, Any] = {"tls": {"secretRef": {"name": secret}}}
    if not entity.flag("verifyHostname", True):
        spec["verifyHostname"] = False
    return spec


def _add(found: Translation, entity: Entity, spec: dict[str, Any], ordinal: int, routers: int) -> None:
    """Add the RouterLink, or the ordinal to one of another router with the same connector."""
    full = {"routerRef": {"name": found.router}, **spec}
    links = [manifest["spec"] for manifest in found.manifests if manifest["kind"] == "RouterLink"]
    same = next((link for link in links if {**link, "placement": None} == {**full, "placement": None}), None)
    if same is not None:
        found.place_also(same, ordinal, routers)
        return
    if routers > 1:
        full["placement"] = {"routers": "List", "ordinals": [ordinal]}
    name = entity.text("name") or entity.text("host") or "peer"
    found.add("RouterLink", found.names.choose("RouterLink", name), full, entity.place)
