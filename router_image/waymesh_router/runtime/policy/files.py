"""Reloads the files of `policyDir` when they have changed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waymesh_router.boot import names_to_look_up
from waymesh_router.events.event import Event
from waymesh_router.management.policy_folder import PolicyFolder, vhosts_of
from waymesh_router.policy.hosts import Addresses
from waymesh_router.runtime.policy.host_names import numeric_addresses
from waymesh_router.runtime.tls.contexts import file_stamp
from waymesh_schema.config import ConfigEntry, policy_files, read_policy_folder
from waymesh_schema.errors import ConfigError
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_router.router import Router
    from waymesh_router.runtime.log.log import Log
    from waymesh_router.runtime.loop import Loop


@dataclass(frozen=True, slots=True)
class _Reading:
    vhosts: Mapping[str, Mapping[str, Any]]
    addresses: Addresses


class PolicyFiles:
    """Watches the folder. A thread reads the files and looks up host names; the loop's thread applies the changes."""

    def __init__(self, loop: Loop, log: Log, router: Router, entries: Sequence[ConfigEntry]) -> None:
        """`entries`: the configuration that the router starts with."""
        self._loop, self._log, self._router = loop, log, router
        self._policy = next(entry for entry in entries if entry.type.name == "policy")
        self._place = self._policy.attributes["policyDir"]
        self._folder = PolicyFolder(router.agent, vhosts_of(self._of_folder(entries)))
        self._seen: Mapping[str, object] | None = None  # None: the first look finds changes during the start
        self._reading = self._again = False

    def poll(self) -> None:
        """Read the files again if one was changed, added or removed."""
        if self._place and self._stamps() != self._seen:
            self.reload()

    def reload(self) -> None:
        """Read the files again, if there is a policyDir. A file that cannot be read leaves all vhosts as they are."""
        if not self._place:
            return
        if self._reading:
            self._again = True
            return
        self._reading = True
        self._seen = self._stamps()  # before the files are read: later changes are noticed
        threading.Thread(target=self._read, name="policy", daemon=True).start()

    def _of_folder(self, entries: Iterable[ConfigEntry]) -> list[ConfigEntry]:
        return [entry for entry in entries if self._place and Path(entry.filename).parent == Path(self._place)]

    def _stamps(self) -> dict[str, object]:
        try:
            return {path: file_stamp(path) for path in policy_files(self._place)}
        except OSError:
            return {self._place: None}

    def _read(self) -> None:
        reading: _Reading | ConfigError | None = None
        try:
            entries = read_policy_folder(self._policy)
            vhosts = vhosts_of(entries)
            changed = self._folder.changed(vhosts)
            names = names_to_look_up(entry for entry in entries if entry.attributes["hostname"] in changed)
            reading = _Reading(vhosts, numeric_addresses(names))
        except ConfigError as error:
            reading = error
        finally:
            self._loop.call_from_thread(lambda: self._take(reading))

    def _take(self, reading: _Reading | ConfigError | None) -> None:
        self._reading = False
        if isinstance(reading, ConfigError):
            for problem in reading.problems:
                text = f"{problem}; the vhosts read before stay in force"
                self._log.write("POLICY", "error", text, Event(LogEvent.POLICY_FILES))
        elif reading is not None:
            with self._router.host_names.given(reading.addresses):
                lines = self._folder.apply(reading.vhosts)
            for level, text in lines:
                self._log.write("POLICY", level, text, Event(LogEvent.POLICY_FILES))
        if self._again:
            self._again = False
            self.reload()
