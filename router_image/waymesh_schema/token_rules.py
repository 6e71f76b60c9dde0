"""Rules for bearer tokens: the entity tokenProfile, and the listeners that use one."""

from __future__ import annotations

from typing import Any

from .errors import SchemaError

Values = dict[str, Any]

BEARER_MECHANISMS = ("OAUTHBEARER", "XOAUTH2")
SIGNATURE_ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip


def listener(entity: str, values: Values) -> None:
    """tokenProfile and saslMechanisms must match. Tokens need TLS: anybody who reads one can use it. RFC 7628, 4"""
    bearer = [name for name in (values["saslMechanisms"] or "").split() if name in BEARER_MECHANISMS]
    if not values["tokenProfile"]:
        if bearer and not values["saslPlugin"]:
            raise SchemaError(entity, "saslMechanisms", f"{' '.join(bearer)}: needs a tokenProfile")
    elif not values["sslProfile"]:
        raise SchemaError(entity, "tokenProfile", "needs an sslProfile: tokens are accepted over TLS only")
    elif values["saslMechanisms"] and not bearer:
        raise SchemaError(entity, "tokenProfile", f"saslMechanisms has none of {' '.join(BEARER_MECHANISMS)}")


def keys(entity: str, values: Values) -> None:
    """The keys must have one source, and must be protected from changes on the network."""
    url = values["keysUrl"]
    if bool(values["keysFile"]) == bool(url):
        raise SchemaError(entity, "keysFile", "one of keysFile and keysUrl is required, not both")
    for name in ("caCertFile", "keysTokenFile"):
        if values[name] and not (url or "").startswith("https://"):
            raise SchemaError(entity, name, "is only for a keysUrl with https")
    if url:
        _keys_url(entity, url)
    for name in ("audience", "issuer", "userClaim"):
        if not values[name]:
            raise SchemaError(entity, name, "must not be empty")


def _keys_url(entity: str, url: str) -> None:
    from urllib.parse import urlsplit  # most routers have no tokenProfile

    try:
        parts = urlsplit(url)
        loopback = parts.hostname is not None and _is_loopback(parts.hostname)
        correct = bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc and not parts.fragment
    except ValueError:
        correct = loopback = False
    if not correct or not url.isascii() or not url.isprintable() or " " in url:
        raise SchemaError(entity, "keysUrl", "is not a URL of the form https://HOST[:PORT]/PATH")
    if parts.scheme != "https" and not (parts.scheme == "http" and loopback):
        raise SchemaError(entity, "keysUrl", "must be https, or http on a loopback address")


def _is_loopback(host: str) -> bool:
    """Whether a host is an address of the machine itself."""
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False  # a name may mean any address


def algorithms(entity: str, values: Values) -> None:
    """Only signatures by private keys: with HS* algorithms, a key to check tokens can also create them."""
    names = values["algorithms"].split()
    wrong = [name for name in names if name not in SIGNATURE_ALGORITHMS]
    if wrong or not names:
        raise SchemaError(entity, "algorithms", f"{' '.join(wrong)!r}: possible are {' '.join(SIGNATURE_ALGORITHMS)}")


def times(entity: str, values: Values) -> None:
    """The two intervals of reading keysUrl must be consistent."""
    if values["minRefreshSeconds"] > values["refreshSeconds"]:
        raise SchemaError(entity, "minRefreshSeconds", "must not be more than refreshSeconds")
