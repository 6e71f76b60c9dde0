"""The `sslProfile` entities of a router, and the choice of one for a listener or connector."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from waymesh_router.boot import OPERATOR_PREFIX
from waymesh_router.runtime.errors import HostError, ProfileError
from waymesh_router.runtime.tls import TlsProfile
from waymesh_router.runtime.tls_identity import check_uid_format
from waymesh_schema.config import ConfigEntry

NEED_TLS = ("requireSsl", "requireEncryption", "peerNames")
"""Attributes of a listener that need an sslProfile."""


class Profiles:
    """All profiles by name."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        """`report(level, text)` is called about reloads."""
        self._report = report
        self._profiles: dict[str, TlsProfile] = {}

    def add(self, attrs: Mapping[str, Any]) -> None:
        """Add a profile. Raises HostError if its attributes or files are unusable."""
        check_uid_format(str(attrs["name"]), str(attrs.get("uidFormat") or ""))
        profile = TlsProfile(attrs, self._report)
        self._profiles[profile.name] = profile

    def remove(self, name: str) -> None:
        """Remove a profile; existing users of it continue."""
        self._profiles.pop(name, None)

    def ends(self) -> dict[str, float]:
        """Expiry times of the certificates, in seconds since 1970, by name."""
        return {name: end for name, profile in self._profiles.items() if (end := profile.not_after) is not None}

    def of_listener(self, attrs: Mapping[str, Any]) -> TlsProfile | None:
        """The profile of a listener, if any. Raises HostError if a required one is missing, or the name is unknown."""
        profile = self._named(f"listener {attrs['name']}", attrs)
        for attribute in NEED_TLS:
            if attrs.get(attribute) and profile is None:
                raise HostError(f"listener {attrs['name']}: {attribute}: needs an sslProfile")
        return profile

    def of_connector(self, attrs: Mapping[str, Any]) -> TlsProfile | None:
        """The profile of a connector, if any. Raises HostError if the name is unknown."""
        return self._named(f"connector {attrs['name']}", attrs)

    def reload(self) -> None:
        """Reload all certificates."""
        for profile in self._profiles.values():
            profile.reload()

    def look(self) -> None:
        """Reload certificates whose files have changed."""
        for profile in self._profiles.values():
            profile.look()

    def _named(self, entity: str, attrs: Mapping[str, Any]) -> TlsProfile | None:
        name = attrs.get("sslProfile")
        if not name:
            return None
        if name not in self._profiles:
            raise HostError(f"{entity}: sslProfile: there is no sslProfile {name}")
        return self._profiles[name]


def without_unusable(entries: Sequence[ConfigEntry]) -> tuple[list[ConfigEntry], list[str]]:
    """The configuration without profiles whose trust settings are unusable, and without the listeners and connectors
    that use them; and the reason for each omitted entity.

    As in Qpid Dispatch, a missing caCertFile, an unknown version in protocols or an invalid uidFormat disables the
    listeners that use the profile, but does not keep the router from starting.
    """
    unusable: dict[str, str] = {}
    trial = Profiles(lambda level, text: None)
    for entry in entries:
        name = str(entry.attributes["name"])
        if entry.type.name == "sslProfile" and not name.startswith(OPERATOR_PREFIX):
            try:
                trial.add(entry.attributes)
            except ProfileError as error:
                unusable[name] = str(error)
            except HostError:
                continue  # an error at start
    kept = [entry for entry in entries if not _concerned(entry, unusable)]
    return kept, [*unusable.values(), *_left_out(entries, unusable)]


def _concerned(entry: ConfigEntry, unusable: Collection[str]) -> bool:
    attribute = "name" if entry.type.name == "sslProfile" else "sslProfile"
    return str(entry.attributes.get(attribute) or "") in unusable


def _left_out(entries: Iterable[ConfigEntry], unusable: Collection[str]) -> list[str]:
    return [
        f"{entry.type.name} {entry.attributes['name']}: stays closed, because sslProfile "
        f"{entry.attributes['sslProfile']} cannot be used"
        for entry in entries
        if entry.type.name != "sslProfile" and _concerned(entry, unusable)
    ]
