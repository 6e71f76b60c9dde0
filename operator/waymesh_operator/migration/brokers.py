"""A connector to a broker as the spec of a Broker."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

from waymesh_schema.password import ENV, FILE, password_form

from .names import resource_name
from .notes import Translation
from .profiles import tls_fields
from .source import Entity, Source

_KNOWN = ("host", "port", "role", "sslProfile", "saslMechanisms", "saslUsername", "saslPassword", "openHostname",
          "openContainerId", "durableNames", "verifyHostname", "failoverUrls", "cost", "policyVhost")  # fmt: skip
CONTAINER_NAMES = (
    "keeps the names of durable subscriptions, but another user with the same container-id gets those of a user; to "
    "set it to user, see docs/migration.md"
)
_PASSWORD = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")


def broker_of(
    found: Translation, entity: Entity, source: Source, port: int, name: str
) -> tuple[dict[str, Any], Mapping[str, str]]:
    """The spec without its routerRef, and the content of the Secret that it refers to, if that is known."""
    found.not_taken(entity, _KNOWN)
    spec: dict[str, Any] = {"endpoints": endpoints(entity, port)}
    if entity.text("openHostname"):
        spec["hostname"] = entity.text("openHostname")
    if entity.text("openContainerId"):
        spec["containerId"] = entity.text("openContainerId")
    spec["durableNames"] = entity.text("durableNames") or "container"  # durable subscriptions keep their names
    if spec["durableNames"] == "container":
        found.note(entity, f"durableNames: container {CONTAINER_NAMES}")
    if entity.text("policyVhost"):
        spec["policyVhost"] = entity.text("policyVhost")
    profile = source.profile(entity.text("sslProfile"))
    if entity.text("sslProfile"):
        spec["tls"] = _tls(found, entity, profile)
    auth, secret = _auth(found, entity, profile, name)
    if auth:
        spec["auth"] = auth
    return spec, secret


def endpoints(entity: Entity, port: int) -> list[dict[str, Any]]:
    """Host and port of a connector, and those of its failoverUrls."""
    found: list[dict[str, Any]] = [{"host": entity.text("host") or "127.0.0.1", "port": port}]
    for url in entity.text("failoverUrls").split(","):
        if url.strip():
            parts = urllib.parse.urlsplit(url.strip() if "://" in url else f"amqp://{url.strip()}")
            default = 5671 if parts.scheme == "amqps" else 5672
            found.append({"host": parts.hostname or "", "port": parts.port or default})
    return found


def _tls(found: Translation, entity: Entity, profile: Entity | None) -> dict[str, Any]:
    tls: dict[str, Any] = {}
    if profile is not None:
        secret = profile.text("caCert")
        if profile.text("caCertFile"):
            secret = f"{resource_name(profile.text('name'))}-ca"
            found.note(profile, f"create the Secret {secret} with ca.crt: the file {profile.text('caCertFile')}")
        if secret:
            tls["caSecretRef"] = {"name": secret}
    if not entity.flag("verifyHostname", True):
        tls["verifyHostname"] = False
    return tls | tls_fields(profile)


def _auth(
    found: Translation, entity: Entity, profile: Entity | None, name: str
) -> tuple[dict[str, Any], Mapping[str, str]]:
    mechanisms = entity.text("saslMechanisms").upper().split()
    secret = f"{resource_name(name)}-login"
    if entity.text("saslUsername"):
        return _password_auth(found, entity, mechanisms, secret)
    certificate = profile is not None and (profile.text("certFile") or profile.text("credentials"))
    if certificate and profile is not None and mechanisms in ([], ["EXTERNAL"]):
        named = profile.text("credentials") or f"{resource_name(profile.text('name'))}-certificate"
        if profile.text("certFile"):
            files = f"{profile.text('certFile')} and {profile.text('privateKeyFile')}"
            found.note(profile, f"create the Secret {named} with tls.crt and tls.key: the files {files}")
        return {"mechanism": "EXTERNAL", "secretRef": {"name": named}}, {}
    return ({"mechanism": "ANONYMOUS"}, {}) if mechanisms == ["ANONYMOUS"] else ({}, {})


def _password_auth(
    found: Translation, entity: Entity, mechanisms: list[str], secret: str
) -> tuple[dict[str, Any], Mapping[str, str]]:
    usable = [one for one in _PASSWORD if one in mechanisms and (one != "PLAIN" or entity.text("sslProfile"))]
    mechanism = usable[0] if usable else "PLAIN" if entity.text("sslProfile") else "SCRAM-SHA-256"
    if mechanisms and not usable:
        found.note(entity, f"saslMechanisms: {' '.join(mechanisms)} without TLS is not used; {mechanism} is used")
    auth = {"mechanism": mechanism, "secretRef": {"name": secret}}
    form, rest = password_form(entity.text("saslPassword"))
    if form in (ENV, FILE) or not rest:
        found.note(entity, f"saslPassword: create the Secret {secret} with username and password")
        return auth, {}
    return auth, {"username": entity.text("saslUsername"), "password": rest}
