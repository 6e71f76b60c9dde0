"""The connections of one listener that have not opened yet: a limited number. Pure."""

from __future__ import annotations

from collections.abc import Callable

End = Callable[[str], None]
"""Ends a connection, with the reason."""

REASON = "too many connections have not sent their open yet (maxOpeningConnections)"


class Opening:
    """Connections from their acceptance to their open, oldest first for each remote host.

    With one too many, the oldest one of the host that has most of them is ended: clients of other hosts can open while
    one host holds as many as it can.
    """

    def __init__(self, most: int, log: Callable[[str, str], None]) -> None:
        """`log(level, text)`: called when ending starts and when it is over, not for each connection."""
        self.most = most
        self.ended = 0
        self._log = log
        self._by_host: dict[str, dict[int, End]] = {}
        self._hosts: dict[int, str] = {}
        self._crowded = False

    def __len__(self) -> int:
        return len(self._hosts)

    def add(self, fd: int, host: str, end: End) -> None:
        """A connection was accepted. `host`: without the port. `end` has to call `remove`."""
        self._hosts[fd] = host
        self._by_host.setdefault(host, {})[fd] = end
        if len(self._hosts) > self.most:
            self._end_one()

    def passed_on(self, fd: int, end: End) -> None:
        """Another object serves the connection now."""
        host = self._hosts.get(fd)
        if host is not None:
            self._by_host[host][fd] = end

    def remove(self, fd: int) -> None:
        """The connection has opened, or ended. No effect if it is not there."""
        host = self._hosts.pop(fd, None)
        if host is None:
            return
        there = self._by_host[host]
        del there[fd]
        if not there:
            del self._by_host[host]
        if self._crowded and len(self._hosts) * 2 <= self.most:
            self._crowded = False
            self._log("notice", f"fewer connections wait for their open again; {self.ended} were ended so far")

    def _end_one(self) -> None:
        if not self._crowded:
            self._crowded = True
            self._log("warning", f"{REASON}: the oldest ones are ended from now on")
        crowd = max(self._by_host.values(), key=len)
        fd, end = next(iter(crowd.items()))
        self.ended += 1
        end(REASON)
        self.remove(fd)
