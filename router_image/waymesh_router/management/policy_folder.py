"""Vhosts of the files in `policyDir`: what changes from one reading of the folder to the next is applied."""

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
"""Attributes of vhosts by host name, as the files have them."""

_NOT_ENFORCED: Mapping[str, Any] = {}
"""Stands for the attributes of a vhost that could not be created: the next change of the files tries it again."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One change of a vhost. `act` raises ManagementError or SchemaError, and then nothing has changed."""

    hostname: str
    done: str
    act: Callable[[], object]


def vhosts_of(entries: Iterable[ConfigEntry]) -> dict[str, Mapping[str, Any]]:
    """The vhosts among the entries."""
    return {entry.attributes["hostname"]: entry.attributes for entry in entries if entry.type.name == "vhost"}


class PolicyFolder:
    """What the files said when they were last read. Vhosts from elsewhere are left alone."""

    def __init__(self, agent: Agent, vhosts: Vhosts) -> None:
        """`vhosts`: those of the files that the router started with."""
        self._agent = agent
        self._read = dict(vhosts)
        self._stand_ins: dict[str, str] = {}  # by host name: identities of vhosts that deny all in place of it

    def changed(self, vhosts: Vhosts) -> dict[str, Mapping[str, Any]]:
        """Those that the files did not have like this when they were last read."""
        return {hostname: wanted for hostname, wanted in vhosts.items() if self._read.get(hostname) != wanted}

    def apply(self, vhosts: Vhosts) -> list[tuple[str, str]]:
        """Delete, update and create vhosts so that they are those of the files; lines for the log: level and text.

        The addresses of their host names must be known. A vhost that cannot be updated keeps its former settings. One
        that cannot be created denies all its clients, whom another vhost could allow more.
        """
        gone = self._read.keys() - vhosts.keys()
        now = self._identities()
        steps = [self._deletion(hostname, now[hostname]) for hostname in sorted(gone) if hostname in now]
        for hostname, wanted in self.changed(vhosts).items():
            steps.append(self._change(hostname, wanted, now.get(hostname)))
        done, refused = _carried_out(steps)
        lines = [("notice", f"policyDir: vhost {step.hostname} {step.done}") for step in done]
        self._read = {hostname: self._read[hostname] for hostname in self._read if hostname not in gone}
        self._read |= {step.hostname: vhosts[step.hostname] for step in done if step.hostname in vhosts}
        for step, error in refused:
            lines.append(("error", f"policyDir: vhost {step.hostname}: {error}; {self._consequence(step, vhosts)}"))
        return lines

    def _identities(self) -> dict[str, str]:
        """Of the vhosts that the files made: those that they name alone are not theirs."""
        rows = {row["identity"]: row["hostname"] for row in self._agent.adapters["vhost"].rows(0.0)}
        self._stand_ins = {hostname: identity for hostname, identity in self._stand_ins.items() if identity in rows}
        made = {hostname: identity for identity, hostname in rows.items() if hostname in self._read}
        return made | self._stand_ins

    def _deletion(self, hostname: str, identity: str) -> _Step:
        return _Step(hostname, "deleted", lambda: self._agent.adapters["vhost"].delete(identity))

    def _change(self, hostname: str, wanted: Mapping[str, Any], identity: str | None) -> _Step:
        if identity is None:
            return _Step(hostname, "created", lambda: self._agent.configure("vhost", wanted))
        if hostname in self._stand_ins:
            return _Step(hostname, "created", lambda: self._put_in_place(hostname, wanted))
        settings = {name: value for name, value in wanted.items() if name not in IDENTIFYING}
        return _Step(hostname, "updated", lambda: self._agent.adapters["vhost"].update(identity, settings))

    def _put_in_place(self, hostname: str, wanted: Mapping[str, Any]) -> None:
        """Create a vhost in place of the one that denies all."""
        if hostname in self._stand_ins:
            self._agent.adapters["vhost"].delete(self._stand_ins.pop(hostname))
        self._agent.configure("vhost", wanted)

    def _consequence(self, step: _Step, vhosts: Vhosts) -> str:
        if step.done != "created":
            return "its former settings stay in force"
        identity = deny_all(self._agent, vhosts[step.hostname])
        if identity is None:
            return "it is left out"
        self._read[step.hostname] = _NOT_ENFORCED
        self._stand_ins[step.hostname] = identity
        return "clients of its names that no other vhost has are denied"


def _carried_out(steps: list[_Step]) -> tuple[list[_Step], list[tuple[_Step, Exception]]]:
    """The steps done and those refused. One that is refused is tried again after others: they may free an alias."""
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
