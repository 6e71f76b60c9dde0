"""Applies the changes of the vhost files in `policyDir` between two readings of the folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waymesh_router.management.adapters import IDENTIFYING
from waymesh_router.management.closed_vhosts import deny_all
from waymesh_router.management.errors import ManagementError
from waymesh_schema.errors import SchemaError

if TYPE_CHECKING:
    from waymesh_router.management.agent import Agent
    from waymesh_schema.config import ConfigEntry

Vhosts = Mapping[str, Mapping[str, Any]]
"""Attributes of vhosts by host name, as read from the files."""

_NOT_ENFORCED: Mapping[str, Any] = {}
"""Recorded for a vhost that could not be created, so that it is tried again after the next change of the files."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One change of a vhost. If `act` raises ManagementError or SchemaError, it has changed nothing."""

    hostname: str
    done: str
    act: Callable[[], object]


def vhosts_of(entries: Iterable[ConfigEntry]) -> dict[str, Mapping[str, Any]]:
    """The vhosts among the entries."""
    return {entry.attributes["hostname"]: entry.attributes for entry in entries if entry.type.name == "vhost"}


class PolicyFolder:
    """The vhosts in the files when they were last read. Vhosts from other sources are not changed."""

    def __init__(self, agent: Agent, vhosts: Vhosts) -> None:
        """`vhosts`: those read from the files when the router started."""
        self._agent = agent
        self._read = dict(vhosts)
        self._deny_all: dict[str, str] = {}  # host name of a vhost that could not be created: identity of its deny_all

    def changed(self, vhosts: Vhosts) -> dict[str, Mapping[str, Any]]:
        """The vhosts that are new or differ from the last reading."""
        return {hostname: wanted for hostname, wanted in vhosts.items() if self._read.get(hostname) != wanted}

    def apply(self, vhosts: Vhosts) -> list[tuple[str, str]]:
        """Delete, update and create vhosts to match the files. Returns log lines: level and text.

        The host names in their remoteHosts must have been looked up. A vhost that cannot be updated keeps its former
        settings. One that cannot be created is replaced by one that denies all clients: another vhost could allow them
        more.
        """
        gone = self._read.keys() - vhosts.keys()
        now = self._identities()
        steps = [self._deletion(hostname, now[hostname]) for hostname in sorted(gone) if hostname in now]
        for hostname, wanted in self.changed(vhosts).items():
            steps.append(self._change(hostname, wanted, now.get(hostname)))
        done, refused = _execute(steps)
        lines = [("notice", f"policyDir: vhost {step.hostname} {step.done}") for step in done]
        self._read = {hostname: self._read[hostname] for hostname in self._read if hostname not in gone}
        self._read |= {step.hostname: vhosts[step.hostname] for step in done if step.hostname in vhosts}
        for step, error in refused:
            lines.append(("error", f"policyDir: vhost {step.hostname}: {error}; {self._consequence(step, vhosts)}"))
        return lines

    def _identities(self) -> dict[str, str]:
        """Identities, by host name, of the vhosts created from the files, not of others with these names."""
        rows = {row["identity"]: row["hostname"] for row in self._agent.adapters["vhost"].rows(0.0)}
        self._deny_all = {hostname: identity for hostname, identity in self._deny_all.items() if identity in rows}
        made = {hostname: identity for identity, hostname in rows.items() if hostname in self._read}
        return made | self._deny_all

    def _deletion(self, hostname: str, identity: str) -> _Step:
        return _Step(hostname, "deleted", lambda: self._agent.adapters["vhost"].delete(identity))

    def _change(self, hostname: str, wanted: Mapping[str, Any], identity: str | None) -> _Step:
        if identity is None:
            return _Step(hostname, "created", lambda: self._agent.configure("vhost", wanted))
        if hostname in self._deny_all:
            return _Step(hostname, "created", lambda: self._replace_deny_all(hostname, wanted))
        settings = {name: value for name, value in wanted.items() if name not in IDENTIFYING}
        return _Step(hostname, "updated", lambda: self._agent.adapters["vhost"].update(identity, settings))

    def _replace_deny_all(self, hostname: str, wanted: Mapping[str, Any]) -> None:
        if hostname in self._deny_all:
            self._agent.adapters["vhost"].delete(self._deny_all.pop(hostname))
        self._agent.configure("vhost", wanted)

    def _consequence(self, step: _Step, vhosts: Vhosts) -> str:
        if step.done != "created":
            return "its former settings stay in force"
        identity = deny_all(self._agent, vhosts[step.hostname])
        if identity is None:
            return "it is not created"
        self._read[step.hostname] = _NOT_ENFORCED
        self._deny_all[step.hostname] = identity
        return "clients of its names that no other vhost has are denied"


def _execute(steps: list[_Step]) -> tuple[list[_Step], list[tuple[_Step, Exception]]]:
    """Execute the steps; returns those done and those refused. Refused ones are retried: others may free an alias."""
    done: list[_Step] = []
    while steps:
        refused: list[tuple[_Step, Exception]] = []
        for step in steps:
            try:
                step.act()
            except (ManagementError, SchemaError) as error:
                refused.append((step, error))
            else:
                done.append(step)
        if len(refused) == len(steps):
            return done, refused
        steps = [step for step, _ in refused]
    return done, []
