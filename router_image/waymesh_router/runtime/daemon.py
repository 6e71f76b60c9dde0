"""Process setup: background, pidfile, user, descriptor limit."""

from __future__ import annotations

import fcntl
import os
import pwd
import resource
import sys
from pathlib import Path

from waymesh_router.runtime.errors import HostError

READY = b"1"
DESCRIPTORS = 16_384
"""Size of the descriptor table that the kernel allocates at the start, 8 bytes for each entry."""


def prepare_descriptors() -> None:
    """Raise the limit of open descriptors to the hard limit: each connection needs one; the usual soft limit is 1024.

    Also make the kernel enlarge the descriptor table now. While threads run, each doubling of it (at the 64th, 128th …
    connection) would block the loop for 7 to 30 ms.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    with open(os.devnull, "rb") as file:
        os.close(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, count - 1))


class PidFile:
    """The file with the id of the process; without a path, nothing is written."""

    def __init__(self, path: str | None) -> None:
        self._path = os.path.abspath(path) if path else None

    def write(self) -> None:
        """Write the id, when the router listens. Raises HostError."""
        if self._path:
            try:
                Path(self._path).write_text(f"{os.getpid()}\n", encoding="ascii")
            except OSError as error:
                raise HostError(f"pidfile {self._path}: {error.strerror}") from None

    def remove(self) -> None:
        """Remove the file when the router has ended, if still permitted."""
        if self._path:
            try:
                os.unlink(self._path)
            except OSError:
                return


class Daemon:
    """A background process. The process that the user started waits for `ready()` and exits with the result.

    The working directory is kept: relative paths of the configuration (certificates, user files) are read again later.
    """

    def __init__(self) -> None:
        """Forks: returns in the background process only. Call it before creating any thread, socket or epoll."""
        read_end, self._report = os.pipe()
        if os.fork():
            os.close(self._report)
            started = os.read(read_end, 1) == READY  # empty if the background process has ended
            os._exit(0 if started else 1)
        os.close(read_end)
        os.setsid()
        if os.fork():  # so that it can never get a controlling terminal
            os._exit(0)

    def ready(self) -> None:
        """The router serves its clients: detach from the terminal and report success."""
        null = os.open(os.devnull, os.O_RDWR)
        sys.stdout.flush()
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        os.close(null)
        os.write(self._report, READY)
        os.close(self._report)


def switch_user(user: str) -> None:
    """Run as this user from now on. Raises HostError."""
    try:
        entry = pwd.getpwnam(user)
        if entry.pw_uid == os.getuid():
            return  # without privileges, even the user's own groups cannot be set
        os.initgroups(user, entry.pw_gid)
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    except KeyError:
        raise HostError(f"user {user}: no such user") from None
    except OSError as error:
        raise HostError(f"user {user}: {error.strerror}") from None
