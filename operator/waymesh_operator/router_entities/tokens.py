"""Token profiles of a Router: their entities, files, and checks for missing data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from waymesh_operator.resources.router import Ref, Router, TokenProfile

from .builders import digest
from .credentials import SecretData, Secrets
from .names import CREDENTIALS, SERVICE_ACCOUNT_KEYS, TOKEN_PROFILE, Entity, entity_name, token_file
from .verdicts import GOOD, Verdict, judge_keys

KEYS, AUTHORITIES = "keys", "ca.crt"
"""Keys of the Secrets that a token profile names."""


@dataclass(frozen=True, slots=True)
class ServiceAccountKeys:
    """The issuer of the cluster's ServiceAccount tokens, and the public keys that verify them."""

    # Empty: unknown.
    issuer: str = ""
    # The keys of the cluster's JWKS.
    keys: tuple[Mapping[str, Any], ...] = ()
    # Why they could not be read now; issuer and keys are then the earlier ones.
    error: str = ""

    @property
    def file(self) -> bytes:
        """Return a JWKS with the issuer as an additional member, so that the file is self-contained."""
        return json.dumps({"issuer": self.issuer, "keys": list(self.keys)}, sort_keys=True).encode()


UNKNOWN = ServiceAccountKeys()


def service_account_keys(issuer: Any, keys: Any, error: str = "") -> ServiceAccountKeys:
    """Parse the members of the API server's documents, or of `ServiceAccountKeys.file`. Raises ValueError."""
    known = isinstance(keys, list) and keys and all(isinstance(key, dict) for key in keys)
    if not known or not isinstance(issuer, str) or not issuer:
        raise ValueError("the API server returned no issuer or no keys")
    return ServiceAccountKeys(issuer, tuple(keys), error)


def token_profiles(
    router: Router, cluster: ServiceAccountKeys, credentials: str = CREDENTIALS
) -> dict[str, Entity]:
    """The entities of the profiles by name, without those of ServiceAccounts while their issuer is unknown.

    The name of an entity contains a digest of its values: a changed profile is created before a listener uses it.
    `credentials` is the folder with the `token_files`.
    """
    found = {}
    for profile in router.token_profiles:
        issuer = cluster.issuer if profile.of_cluster else profile.issuer
        if issuer:
            found[profile.name] = _entity(router.ref, profile, issuer, credentials)
    return found


def _entity(ref: Ref, profile: TokenProfile, issuer: str, folder: str) -> Entity:
    attributes: dict[str, Any] = {"issuer": issuer, "audience": profile.audience, **dict(profile.settings)}
    if profile.of_cluster:
        attributes["keysFile"] = f"{folder}/{SERVICE_ACCOUNT_KEYS}"
    if profile.keys_secret:
        attributes["keysFile"] = f"{folder}/{token_file(profile.name, KEYS)}"
    if profile.ca_secret:
        attributes["caCertFile"] = f"{folder}/{token_file(profile.name, AUTHORITIES)}"
    name = entity_name(ref, "Router", "token", profile.name, digest(attributes))
    return Entity(TOKEN_PROFILE, name, attributes)


def token_secrets(router: Router) -> set[str]:
    """Names of the Secrets that the profiles refer to."""
    return {name for profile in router.token_profiles for name, _ in _wanted(profile)}


def token_files(router: Router, secrets: Secrets, cluster: ServiceAccountKeys) -> SecretData:
    """Return the files that the entities name, as far as they exist."""
    found = {}
    for profile in router.token_profiles:
        for secret, key in _wanted(profile):
            if data := (secrets.get(secret) or {}).get(key):
                found[token_file(profile.name, key)] = data
        if profile.of_cluster and cluster.issuer:
            found[SERVICE_ACCOUNT_KEYS] = cluster.file
    return found


def judge_tokens(router: Router, secrets: Secrets, cluster: ServiceAccountKeys) -> Verdict:
    """Return the verdict: whether the keys of all profiles exist."""
    for profile in router.token_profiles:
        for secret, key in _wanted(profile):
            if wrong := judge_keys(secret, secrets.get(secret), (key,)):
                reason, text = wrong
                return Verdict(resolved_refs=False, reason=reason, message=f"tokenProfile {profile.name}: {text}")
        if profile.of_cluster and cluster.error:
            kept = "the earlier ones stay in use" if cluster.issuer else "listeners with this profile stay closed"
            text = f"issuer and keys of ServiceAccount tokens cannot be read: {cluster.error}; {kept}"
            message = f"tokenProfile {profile.name}: {text}"
            return Verdict(
                resolved_refs=False, reason="KeysUnreadable", message=message, spared=bool(cluster.issuer)
            )
    return GOOD


def _wanted(profile: TokenProfile) -> Iterator[tuple[str, str]]:
    """Secret and key."""
    if profile.keys_secret:
        yield profile.keys_secret, KEYS
    if profile.ca_secret:
        yield profile.ca_secret, AUTHORITIES
