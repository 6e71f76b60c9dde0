"""Files with passwords and keys for routers, from the Secrets that resources name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from waymesh_operator.resources.dependents import Broker
from waymesh_operator.resources.router import Listener
from waymesh_operator.resources.router_link import RouterLink

from .names import credential_file, link_file, listener_file

SecretData = Mapping[str, bytes]


def broker_files(broker: Broker, auth: SecretData, authorities: SecretData) -> dict[str, bytes]:
    """The files that a Broker's connector refers to, from the Secrets that the Broker names."""
    found = {}
    wanted = {"EXTERNAL": ("tls.crt", "tls.key")}.get(broker.mechanism, ("password",))
    for part in wanted:
        if part in auth:
            found[credential_file(broker.ref, part)] = auth[part]
    if "ca.crt" in authorities:
        found[credential_file(broker.ref, "ca.crt")] = authorities["ca.crt"]
    return found


LINK_PARTS = ("ca.crt", "tls.crt", "tls.key")
"""Keys of the Secret of a RouterLink that routers read as files."""


def link_files(link: RouterLink, secret: SecretData) -> dict[str, bytes]:
    """The files that a RouterLink's connector refers to."""
    return {link_file(link.ref, part): secret[part] for part in LINK_PARTS if link.secret}


def listener_keys(listener: Listener) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The Secrets that a listener names for TLS, each with the keys that it must have."""
    if listener.certificate:
        yield listener.certificate, ("tls.crt", "tls.key")
    if listener.authorities:
        yield listener.authorities, ("ca.crt", "ca.crl") if listener.revocation else ("ca.crt",)


def listener_files(listener: Listener, secrets: Mapping[str, SecretData | None]) -> dict[str, bytes]:
    """Return the files that a listener's sslProfile refers to, from Secrets that have all of them."""
    return {
        listener_file(listener.name, key): (secrets[name] or {})[key]
        for name, keys in listener_keys(listener)
        for key in keys
    }
