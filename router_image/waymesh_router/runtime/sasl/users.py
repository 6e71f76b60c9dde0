"""The user files with the passwords for SASL PLAIN and SCRAM."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waymesh_router.events.event import Event, ModuleLog
from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.tls.contexts import file_stamp
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_amqp.users import UserFile

REPORTED = 20
"""Maximum number of lines of a user file that are reported individually."""


def user_file_path(router: Mapping[str, Any]) -> Path | None:
    """`<saslConfigDir>/<saslConfigName>.users` of the `router` entity, None without a folder.

    `<saslConfigName>.conf` in the same folder belongs to Cyrus SASL, whose database is not supported.
    """
    folder = router.get("saslConfigDir")
    return Path(folder) / f"{router.get('saslConfigName') or 'qdrouterd'}.users" if folder else None


def users_hint(router: Mapping[str, Any]) -> str:
    """Advice for a saslConfigDir with a Cyrus configuration but no user file; "" if there is no such problem."""
    path = user_file_path(router)
    if path is None or os.path.exists(path) or not os.path.exists(path.with_suffix(".conf")):
        return ""
    return (
        f"router: saslConfigDir: {path.with_suffix('.conf')} is a configuration of Cyrus SASL. It and its sasldb "
        f"cannot be used, so no client can log in with a password until there is {path} with a line "
        "`NAME:{plain}PASSWORD` for each user"
    )


class UserFiles:
    """The users of a router by file: the file in its saslConfigDir, and the `usersFile` of listeners."""

    def __init__(self, report: ModuleLog) -> None:
        """`report` is called for unusable lines and about reloads."""
        self._report = report
        self._default: Path | None = None
        self._files: dict[Path, _File] = {}

    def configure(self, router: Mapping[str, Any]) -> None:
        """Read the file of the `router` entity. Raises HostError if it is unreadable."""
        self._default = user_file_path(router)
        if self._default is not None:
            self._files[self._default] = _File(self._default, "router: saslConfigDir", self._report)

    def add(self, listener: Mapping[str, Any]) -> None:
        """Read the usersFile of a listener, if any. Raises HostError if it is missing or unreadable."""
        path = _path_of(listener)
        if path is None:
            return
        attribute = f"listener {listener['name']}: usersFile"
        if not os.path.exists(path):
            raise HostError(f"{attribute}: {path}: no such file, or not accessible")
        if path not in self._files:
            self._files[path] = _File(path, attribute, self._report)

    def keep_those_of(self, listeners: Iterable[Mapping[str, Any]]) -> None:
        """Remove the files that neither one of these listeners nor the router uses."""
        used = {self._default, *map(_path_of, listeners)}
        self._files = {path: file for path, file in self._files.items() if path in used}

    def authenticator(self, listener: Mapping[str, Any]) -> UserFile | None:
        """The users of a listener: from its usersFile, or else the router's file. None if the file does not exist."""
        path = _path_of(listener) or self._default
        file = None if path is None else self._files.get(path)
        return None if file is None else file.users

    def refused(self) -> int:
        """Number of unusable lines."""
        return sum(len(file.users.problems) for file in self._files.values() if file.users is not None)

    def reload(self) -> None:
        """Read all files again; the users of an unreadable file stay as they are."""
        for file in self._files.values():
            self._read_again(file)

    def poll(self) -> None:
        """Read the changed files again."""
        for file in self._files.values():
            if file.changed():
                text = f"the users have changed: reading {file.path} again"
                self._report("notice", text, Event(LogEvent.USERS_READ, detail={"path": str(file.path)}))
                self._read_again(file)

    def _read_again(self, file: _File) -> None:
        try:
            file.read()
        except HostError as error:
            event = Event(LogEvent.USERS_FAILED, detail={"path": str(file.path)})
            self._report("error", f"{error}; the users read before stay in use", event)


class _File:
    """One user file, with its users as last read; None while it does not exist: then no client can log in."""

    def __init__(self, path: Path, attribute: str, report: ModuleLog) -> None:
        """`attribute`: entity and attribute, for errors. Raises HostError if the file is unreadable."""
        self.path = path
        self.users: UserFile | None = None
        self._attribute = attribute
        self._report = report
        self._seen: tuple[int, int] | None = None
        self.read()

    def changed(self) -> bool:
        """Whether the file differs from the one read last."""
        return file_stamp(self.path) != self._seen

    def read(self) -> None:
        """Read the file. Each unusable line is reported: its user cannot log in, the others can. Raises HostError."""
        self._seen = file_stamp(self.path)  # before the file is read: later changes are noticed
        try:
            text = self.path.read_bytes().decode("utf-8", "surrogateescape")
        except (FileNotFoundError, NotADirectoryError):
            self.users = None
            return
        except OSError as error:
            raise HostError(f"{self._attribute}: {self.path}: {error}") from None
        from waymesh_amqp.users import UserFile  # imports SCRAM, which most routers do not need

        users = UserFile.parse(text)
        failed = Event(LogEvent.USERS_FAILED, detail={"path": str(self.path)})
        for problem in users.problems[:REPORTED]:
            self._report("error", f"{self.path}: {problem}; this user cannot log in", failed)
        if len(users.problems) > REPORTED:
            more = len(users.problems) - REPORTED
            self._report("error", f"{self.path}: {more} more lines cannot be used; their users cannot log in", failed)
        self.users = users
        if users.stores()[0]:  # derive the keys of plain passwords in a thread: milliseconds for each user
            threading.Thread(target=users.prepare, name="users", daemon=True).start()


def _path_of(listener: Mapping[str, Any] | None) -> Path | None:
    path = listener.get("usersFile") if listener else None
    return Path(path) if path else None
