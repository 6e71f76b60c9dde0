"""The `sslProfile` entities of a router, and TLS of the listeners and connectors that use them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from waymesh_router.events.event import ModuleLog
from waymesh_router.management.identity import configured_name
from waymesh_router.peers.certificate import Validity
from waymesh_router.peers.mechanisms import profiles_used
from waymesh_router.runtime.errors import HostError, ProfileError
from waymesh_router.runtime.tls.contexts import NO_PROTOCOL, TlsProfile, versions_of
from waymesh_router.runtime.tls.endpoints import ConnectorTls, ListenerTls
from waymesh_router.runtime.tls.identity import check_uid_format
from waymesh_schema.config import ConfigEntry
from waymesh_schema.operator_names import of_operator

NEED_TLS = ("requireSsl", "requireEncryption", "peerNames", "recheckPeers", "trustedCertsFile")
"""Attributes of a listener that need an sslProfile."""


class Profiles:
    """All profiles by name."""

    def __init__(self, report: ModuleLog) -> None:
        """`report` is called about reloads."""
        self._report = report
        self._profiles: dict[str, TlsProfile] = {}

    def add(self, attrs: Mapping[str, Any]) -> None:
        """Add a profile. Raises HostError if its attributes or files are unusable."""
        profile = self._create(attrs)
        self._profiles[profile.name] = profile

    def update(self, attrs: Mapping[str, Any], checks: Iterable[Callable[[TlsProfile], object]]) -> None:
        """Change a profile for all its users; each check raises HostError if the profile is unusable for a user.

        Also raises HostError if its attributes or files are unusable. After an error, nothing has changed.
        """
        profile = self._create(attrs)
        for check in checks:
            check(profile)
        self._profiles[profile.name].replace_with(profile)

    def remove(self, name: str) -> None:
        """Remove a profile that has no users."""
        self._profiles.pop(name, None)

    def loads(self) -> dict[str, int]:
        """How often each profile was loaded. Differs after a change of any profile or its files."""
        return {name: profile.loads for name, profile in self._profiles.items()}

    def validities(self) -> dict[str, Validity]:
        """The validity of the certificate of each profile that has one, by the profile's name."""
        return {name: found for name, profile in self._profiles.items() if (found := profile.validity) is not None}

    def of_listener(self, attrs: Mapping[str, Any]) -> ListenerTls | None:
        """TLS of a listener, if any. Raises HostError if a required profile is missing, unknown or unusable for it."""
        entity = f"listener {attrs['name']}"
        name = attrs.get("sslProfile")
        for attribute in NEED_TLS:
            if attrs.get(attribute) and not name:
                raise HostError(f"{entity}: {attribute}: needs an sslProfile")
        if not name:
            return None
        by_host = {
            host: self._named(f"{entity}: sslProfilesByHost", other)
            for host, other in (attrs.get("sslProfilesByHost") or {}).items()
        }
        return ListenerTls(attrs, self._named(f"{entity}: sslProfile", name), by_host)

    def of_connector(self, attrs: Mapping[str, Any]) -> ConnectorTls | None:
        """TLS of a connector, if any. Raises HostError if its profile is unknown or unusable for it."""
        return self.of_client(f"connector {attrs['name']}", attrs)

    def of_client(self, entity: str, attrs: Mapping[str, Any]) -> ConnectorTls | None:
        """TLS of an entity that opens connections, if any. Raises HostError like `of_connector`."""
        name = attrs.get("sslProfile")
        return ConnectorTls(attrs, self._named(f"{entity}: sslProfile", name)) if name else None

    def reload(self) -> None:
        """Reload all certificates."""
        for profile in self._profiles.values():
            profile.reload()

    def poll(self) -> None:
        """Reload certificates whose files have changed."""
        for profile in self._profiles.values():
            profile.poll()

    def _create(self, attrs: Mapping[str, Any]) -> TlsProfile:
        check_uid_format(str(attrs["name"]), str(attrs.get("uidFormat") or ""))
        return TlsProfile(attrs, self._report)

    def _named(self, attribute: str, name: str) -> TlsProfile:
        if name not in self._profiles:
            raise HostError(f"{attribute}: there is no sslProfile {name}")
        return self._profiles[name]


def without_unusable(entries: Sequence[ConfigEntry]) -> tuple[list[ConfigEntry], list[str]]:
    """The configuration without profiles whose trust settings are unusable, and without the listeners and connectors
    that use them; and the reason for each omitted entity.

    As in Qpid Dispatch, a missing caCertFile disables the listeners that use the profile, but does not prevent the
    router from starting. With an unknown version in protocols, every handshake fails; with an invalid uidFormat, the
    whole subject is the user name.
    """
    entries, replaced = _with_usable_settings(entries)
    unusable: dict[str, str] = {}
    trial = Profiles(lambda level, text, event=None: None)
    for entry in entries:
        name = str(entry.attributes["name"])
        if entry.type.name == "sslProfile" and not of_operator(entry.attributes):
            try:
                trial.add(entry.attributes)
            except ProfileError as error:
                unusable[name] = str(error)
            except HostError:
                continue  # the router does not start, and reports it then
    services = {
        entry.attributes["name"]: names[0]
        for entry in entries
        if entry.type.name == "authServicePlugin" and (names := _unusable_profiles(entry, unusable))
    }
    kept = [entry for entry in entries if not (_unusable_profiles(entry, unusable) or _plugin(entry) in services)]
    reasons = [
        f"{_title(entry)}: stays closed, because sslProfile {services[_plugin(entry)]} of its "
        "saslPlugin cannot be used"
        for entry in entries
        if _plugin(entry) in services
    ]
    return kept, [*replaced, *unusable.values(), *_closed_entities(entries, unusable), *reasons]


def _with_usable_settings(entries: Iterable[ConfigEntry]) -> tuple[list[ConfigEntry], list[str]]:
    """The entries with safe values in place of unusable protocols and uidFormats; and an error for each of these."""
    found, errors = [], []
    for entry in entries:
        if entry.type.name == "sslProfile" and not of_operator(entry.attributes):
            entry, reasons = _with_usable_values(entry)
            errors += reasons
        found.append(entry)
    return found, errors


def _with_usable_values(entry: ConfigEntry) -> tuple[ConfigEntry, list[str]]:
    attributes, errors = dict(entry.attributes), []
    name = str(attributes["name"])
    try:
        check_uid_format(name, str(attributes["uidFormat"] or ""))
    except ProfileError as error:
        attributes["uidFormat"] = None
        errors.append(f"{error}; the whole subject is the user name")
    try:
        if attributes["protocols"] != NO_PROTOCOL:
            versions_of(name, str(attributes["protocols"] or ""))
    except ProfileError as error:
        attributes["protocols"] = NO_PROTOCOL
        errors.append(f"{error}; every handshake is refused")
    return replace(entry, attributes=attributes), errors


def _title(entry: ConfigEntry) -> str:
    """The entity's type and name for messages; its identity if it has no name."""
    return f"{entry.type.name} {configured_name(entry.type.name, entry.attributes)}"


def _plugin(entry: ConfigEntry) -> str:
    """The authServicePlugin that an entity uses, if any."""
    return str(entry.attributes.get("saslPlugin") or "")


def _unusable_profiles(entry: ConfigEntry, unusable: Collection[str]) -> list[str]:
    """The unusable profiles that an entity uses, or the entity itself if it is one."""
    if entry.type.name == "sslProfile":
        named = [str(entry.attributes["name"])]
    else:
        named = profiles_used(entry.attributes)
    return [name for name in named if name in unusable]


def _closed_entities(entries: Iterable[ConfigEntry], unusable: Collection[str]) -> list[str]:
    return [
        f"{_title(entry)}: stays closed, because sslProfile {names[0]} cannot be used"
        for entry in entries
        if entry.type.name != "sslProfile" and (names := _unusable_profiles(entry, unusable))
    ]
