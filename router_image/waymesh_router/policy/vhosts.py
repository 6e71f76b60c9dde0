"""The vhosts of a router by name. The time for a change depends only on the names of the changed vhost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from waymesh_router.policy.names import NewPatterns, Patterns
from waymesh_router.policy.settings import PatternError, Policy, SettingsError, Vhost, parse_vhost
from waymesh_schema.entities import ENTITY_TYPES
from waymesh_schema.host_rules import Resolve
from waymesh_schema.validate import validate_create


class VhostTable:
    """Vhosts by host name and alias, and by pattern if names are patterns. A `Policy` from it shares its changes."""

    def __init__(self, tree: NewPatterns, patterns: bool, vhosts: Iterable[Vhost] = ()) -> None:
        """Raises SettingsError."""
        self._tree = tree
        self._by_name: dict[str, Vhost] = {}
        self._patterns: Patterns | None = tree() if patterns else None
        for vhost in vhosts:
            self.add(vhost)

    def policy(self, values: Mapping[str, Any]) -> Policy:
        """The settings with the checked attributes of `policy`."""
        return Policy(
            tree=self._tree,
            max_connections=values["maxConnections"],
            max_message_size=values["maxMessageSize"],
            enabled=values["enableVhostPolicy"],
            default_vhost=values["defaultVhost"] or "",
            warn_at_percent=values["warnAtPercent"],
            dry_run=values["dryRun"],
            vhosts=self._by_name,
            patterns=self._patterns,
        )

    def add(self, vhost: Vhost) -> None:
        """Raises SettingsError, without any change, if another vhost has one of the names."""
        taken: list[str] = []
        try:
            for name in vhost.names:
                self._take(vhost, name)
                taken.append(name)
        except SettingsError:
            self._give_back(taken)
            raise

    def replace(self, old: Vhost, new: Vhost) -> None:
        """Raises SettingsError, without any change, as `add` does."""
        self.remove(old)
        try:
            self.add(new)
        except SettingsError:
            self.add(old)
            raise

    def remove(self, vhost: Vhost) -> None:
        self._give_back(vhost.names)

    def _take(self, vhost: Vhost, name: str) -> None:
        if name in self._by_name:
            raise SettingsError(
                f"vhost {vhost.hostname}: {name!r} is already a name of {self._by_name[name].hostname}"
            )
        if self._patterns is not None and name:
            try:
                self._patterns.add(name, name)
            except KeyError:
                raise PatternError(f"vhost {vhost.hostname}: another vhost has the pattern {name!r}") from None
        self._by_name[name] = vhost

    def _give_back(self, names: Iterable[str]) -> None:
        for name in names:
            del self._by_name[name]
            if self._patterns is not None and name:
                self._patterns.remove(name)


def parse_policy(
    values: Mapping[str, Any], vhosts: Iterable[Mapping[str, Any]], tree: NewPatterns, resolve: Resolve
) -> Policy:
    """The settings from attributes of `policy` and of each `vhost` as written. Raises SchemaError or SettingsError."""
    parsed = [parse_vhost(validate_create(ENTITY_TYPES["vhost"], vhost), resolve) for vhost in vhosts]
    checked = validate_create(ENTITY_TYPES["policy"], values)
    return VhostTable(tree, checked["enableVhostNamePatterns"], parsed).policy(checked)
