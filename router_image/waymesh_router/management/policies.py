"""Adapters of `policy` and `vhost`, which change the policy in force, and of the statistics of vhosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.management.adapters import Attributes, ConfiguredEntities, EntityAdapter, TableEntities
from waymesh_router.management.configured import PermanentEntities
from waymesh_router.management.errors import INTERNAL_ERROR, ManagementError, bad_request
from waymesh_router.management.look_ups import LookUpNeeded
from waymesh_router.management.view import RouterView
from waymesh_router.policy.enforcement import Enforcement
from waymesh_router.policy.settings import PatternError, SettingsError, Vhost, host_names, parse_vhost
from waymesh_router.policy.statistics import Denials, VhostCounts
from waymesh_router.policy.vhosts import VhostTable
from waymesh_schema.entities import entity_type
from waymesh_schema.validate import validate_create

Column = Callable[[Any, float], Any]


def policies(view: RouterView) -> list[EntityAdapter]:
    """The adapters. A change that cannot be enforced is refused with status 400 and changes nothing."""
    settings = _Settings(view)
    kind = entity_type("policy")
    policy = PermanentEntities(
        kind,
        (settings.values,),
        on_update=lambda attributes, _changed: settings.set_policy(attributes),
        live=lambda _attributes, _now: _policy_counts(view),
    )
    vhosts = ConfiguredEntities(
        entity_type("vhost"),
        on_create=settings.set_vhost,
        on_update=lambda attributes, _changed: settings.set_vhost(attributes),
        on_delete=settings.remove_vhost,
    )
    return [policy, vhosts, _vhost_stats(view), _group_stats(view)]


class _Settings:
    """The entities in force: the attributes of `policy`, and the vhosts by identity."""

    def __init__(self, view: RouterView) -> None:
        self.values = validate_create(entity_type("policy"), {})
        self._view = view
        self._vhosts: dict[str, Vhost] = {}
        self._table = self._new_table(self.values)

    def set_policy(self, attributes: Attributes) -> None:
        if attributes["enableVhostNamePatterns"] != self.values["enableVhostNamePatterns"]:
            try:
                self._table = self._new_table(attributes)
            except SettingsError as error:
                raise bad_request(str(error)) from error
        self.values = attributes
        self._enforce()

    def set_vhost(self, attributes: Attributes) -> None:
        """Raises LookUpNeeded if host names must be looked up first."""
        identity = attributes["identity"]
        try:
            vhost = self._parsed(attributes)
            if identity in self._vhosts:
                self._table.replace(self._vhosts[identity], vhost)
            else:
                self._table.add(vhost)
        except PatternError as error:
            text = f"PolicyError: Policy '{attributes['hostname']}' is invalid: {error}"
            raise ManagementError(INTERNAL_ERROR, text) from error
        except SettingsError as error:
            raise bad_request(str(error)) from error
        self._vhosts[identity] = vhost
        self._enforce()

    def remove_vhost(self, attributes: Attributes) -> None:
        self._table.remove(self._vhosts.pop(attributes["identity"]))
        self._enforce()

    def _parsed(self, attributes: Attributes) -> Vhost:
        known = self._view.host_names
        lacking = known.lacking(host_names(attributes["groups"]))
        if not lacking:
            return parse_vhost(attributes, known.addresses)
        parse_vhost(attributes, lambda _name: ())  # reports other errors before the look-up
        raise LookUpNeeded(lacking)

    def _new_table(self, values: Attributes) -> VhostTable:
        return VhostTable(PatternTree[str], values["enableVhostNamePatterns"], self._vhosts.values())

    def _enforce(self) -> None:
        self._view.policy.replace(self._table.policy(self.values))


def _policy_counts(view: RouterView) -> Mapping[str, Any]:
    counts = view.policy.counts
    return {
        "connectionsProcessed": counts.connections_processed,
        "connectionsDenied": counts.connections_denied,
        "connectionsCurrent": view.policy.open.total,
        "linksDenied": counts.links_denied,
        "maxMessageSizeDenied": counts.sizes_denied,
        "totalDenials": counts.total_denials + view.core.denied.get("management", 0),
        "dryRunConnections": counts.dry_run.connections,
        "dryRunLinks": counts.dry_run.links,
        "dryRunDenials": counts.dry_run.denials,
    }


@dataclass(frozen=True, slots=True)
class _VhostRow:
    """A vhost that is configured or has counts."""

    name: str
    counts: VhostCounts


@dataclass(frozen=True, slots=True)
class _GroupRow:
    """A user group that is configured or has counts."""

    vhost: str
    name: str
    denials: Denials


def _rows(policy: Enforcement) -> list[_VhostRow]:
    """All vhosts, including those that no longer exist but have counts."""
    configured = [vhost.hostname for vhost in policy.policy.vhosts.values()]
    names = dict.fromkeys((*configured, *policy.counts.vhosts))
    return [_VhostRow(name, policy.counts.vhosts.get(name) or VhostCounts()) for name in names]


def _group_rows(policy: Enforcement) -> list[_GroupRow]:
    found = []
    for row in _rows(policy):
        vhost = policy.policy.vhosts.get(row.name)
        denials = row.counts.group_denials
        for group in dict.fromkeys((*(vhost.groups if vhost is not None else ()), *denials)):
            found.append(_GroupRow(row.name, group, denials.get(group) or Denials()))
    return found


def _vhost_stats(view: RouterView) -> EntityAdapter:
    columns: dict[str, Column] = {
        "identity": lambda row, _now: f"vhostStats/{row.name}",
        "id": lambda row, _now: row.name,
        "hostname": lambda row, _now: row.name,
        "connectionsApproved": lambda row, _now: row.counts.connections_approved,
        "connectionsDenied": lambda row, _now: row.counts.connections_denied,
        "connectionsCurrent": lambda row, _now: view.policy.open.vhosts[row.name],
        "perUserState": lambda row, _now: _of_vhost(view.policy.open.users, row.name),
        "perHostState": lambda row, _now: _of_vhost(view.policy.open.hosts, row.name),
    }
    columns |= _denials(lambda row: row.counts.denials)
    columns["dryRunConnections"] = lambda row, _now: row.counts.dry_run.connections
    columns["dryRunLinks"] = lambda row, _now: row.counts.dry_run.links
    columns["dryRunDenials"] = lambda row, _now: row.counts.dry_run.denials
    return TableEntities(entity_type("vhostStats"), lambda: _rows(view.policy), columns)


def _group_stats(view: RouterView) -> EntityAdapter:
    columns: dict[str, Column] = {
        "identity": lambda row, _now: f"vhostUserGroupStats/{row.vhost}/{row.name}",
        "hostname": lambda row, _now: row.vhost,
        "groupName": lambda row, _now: row.name,
        "dynamicSourceDenied": lambda row, _now: row.denials.dynamic_sources,
        "anonymousSenderDenied": lambda row, _now: row.denials.anonymous_senders,
        "linksDenied": lambda row, _now: row.denials.links,
        "messagesDenied": lambda row, _now: row.denials.messages,
    }
    columns |= _denials(lambda row: row.denials)
    return TableEntities(entity_type("vhostUserGroupStats"), lambda: _group_rows(view.policy), columns)


def _denials(of: Callable[[Any], Denials]) -> dict[str, Column]:
    return {
        "sessionDenied": lambda row, _now: of(row).sessions,
        "senderDenied": lambda row, _now: of(row).senders,
        "receiverDenied": lambda row, _now: of(row).receivers,
        "maxMessageSizeDenied": lambda row, _now: of(row).message_sizes,
    }


def _of_vhost(counts: Counter[tuple[str, str]], vhost: str) -> dict[str, int]:
    """Numbers above 0 by user or host."""
    return {key: number for (name, key), number in counts.items() if name == vhost and number > 0}
