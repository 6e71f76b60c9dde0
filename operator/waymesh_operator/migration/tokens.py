"""Token profiles as spec.tokenProfiles of the Router."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .dependents import numbers
from .names import resource_name
from .notes import Translation
from .source import Entity, Source

_TEXTS = ("issuer", "audience", "keysUrl", "userClaim", "groupsClaim")
_NUMBERS = ("clockSkewSeconds", "refreshSeconds", "minRefreshSeconds", "keepKeysSeconds")
_KNOWN = (*_TEXTS, *_NUMBERS, "keysFile", "caCertFile", "algorithms", "allowNoExpiry")


def token_profiles(found: Translation, sources: Sequence[Source]) -> list[dict[str, Any]]:
    """The profiles of all routers; of two with one name, the first one is used."""
    made: dict[str, dict[str, Any]] = {}
    for entity in [profile for source in sources for profile in source.of("tokenProfile")]:
        if not (entity.text("issuer") and entity.text("audience")):
            found.note(entity, "has no issuer and audience; left out")
            continue
        found.read(entity)
        profile = _profile(found, entity)
        if profile != made.setdefault(profile["name"], profile):
            found.lose(entity, f"name: {entity.text('name')} has other settings in another file, which are used")
    return list(made.values())


def profile_name(entity: Entity) -> str:
    """The name of the profile of a listener, or of a profile, among those of the Router."""
    return resource_name(entity.text("name" if entity.type == "tokenProfile" else "tokenProfile"))


def _profile(found: Translation, entity: Entity) -> dict[str, Any]:
    found.not_taken(entity, _KNOWN)
    name = profile_name(entity)
    profile: dict[str, Any] = {"name": name}
    profile |= {field: entity.text(field) for field in _TEXTS if not entity.is_default(field)}
    profile |= {field: number for field, number in numbers(entity, *_NUMBERS).items() if not entity.is_default(field)}
    if not entity.is_default("algorithms"):
        profile["algorithms"] = entity.text("algorithms").split()
    if entity.flag("allowNoExpiry"):
        profile["allowNoExpiry"] = True
    for field, reference, key in (("keysFile", "keysSecretRef", "keys"), ("caCertFile", "caSecretRef", "ca.crt")):
        if entity.text(field):
            secret = f"{name}-{'keys' if key == 'keys' else 'ca'}"
            profile[reference] = {"name": secret}
            found.note(entity, f"create the Secret {secret} with {key}: the file {entity.text(field)}")
    return profile
