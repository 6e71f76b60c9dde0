"""The settings of sslProfiles: versions and ciphers of TLS, and users of certificates, where they are used."""

from __future__ import annotations

import re
from typing import Any

from .notes import Translation
from .source import Entity

VERSIONS = ("TLSv1.2", "TLSv1.3")
"""Those that resources know, all by default."""
_KNOWN = ("certFile", "privateKeyFile", "caCertFile", "credentials", "caCert", "crlFile", "protocols", "ciphers",
          "uidFormat")  # fmt: skip


def read_profile(found: Translation, profile: Entity) -> None:
    """Note what no resource has of an sslProfile."""
    found.read(profile)
    found.not_taken(profile, _KNOWN)
    wanted = _wanted(profile)
    if wanted and not _versions(profile):
        found.lose(profile, f"protocols: {' '.join(wanted)}: {' and '.join(VERSIONS)} are accepted")


def tls_fields(profile: Entity | None) -> dict[str, Any]:
    """`protocols` and `ciphers` as fields, those that are set."""
    if profile is None:
        return {}
    fields: dict[str, Any] = {}
    versions = _versions(profile)
    if len(versions) == 1:
        fields["protocols"] = versions
    ciphers = [name for name in re.split("[:, ]+", profile.text("ciphers")) if name]
    if ciphers and "ciphers" not in dict(profile.wrong):
        fields["ciphers"] = ":".join(ciphers)
    return fields


def uid_format(profile: Entity | None) -> dict[str, Any]:
    """`uidFormat` as a field, if it is set."""
    usable = profile is not None and profile.text("uidFormat") and "uidFormat" not in dict(profile.wrong)
    return {"uidFormat": profile.text("uidFormat")} if usable and profile is not None else {}


def _wanted(profile: Entity) -> list[str]:
    return profile.text("protocols").split() if "protocols" not in dict(profile.wrong) else []


def _versions(profile: Entity) -> list[str]:
    """The versions that stay."""
    return [version for version in VERSIONS if version in _wanted(profile)]
