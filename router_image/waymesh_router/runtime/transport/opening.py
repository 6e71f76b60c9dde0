"""Limits the number of connections of one listener that have not opened yet. Pure."""

from __future__ import annotations

from collections.abc import Callable

End = Callable[[str], None]
"""Ends a connection, with the reason."""

REASON = "too many connections have not sent their open yet (maxOpeningConnections)"


class Opening:
    """Accepted connections whose open has not arrived, by remote host, oldest first.

    Above the limit, the oldest connection of the host with most of them is ended, so that one host cannot keep clients
    of other hosts from opening.
    """

    def __init__(self, most: int, log: Callable[[str, str], None]) -> None:
        """`log(level, text)`: called when the limit is exceeded and when the number is low again, not for each
        connection."""
        self.most = most
        self.ended = 0
        self._log = log
        self._by_host: dict[str, dict[int, End]] = {}
        self._hosts: dict[int, str] = {}
        self._crowded = False

    def __len__(self) -> int:
        return len(self._hosts)

    def add(self, fd: int, host: str, end: End) -> None:
        """A connection was accepted. `host`: without the port. `end` must call `remove`."""
        self._hosts[fd] = host
        self._by_host.setdefault(host, {})[fd] = end
        if len(self._hosts) > self.most:
            self._end_one()

    def passed_on(self, fd: int, end: End) -> None:
        """Another object serves the connection now, with another `end`."""
        host = self._hosts.get(fd)
        if host is not None:
            self._by_host[host][fd] = end

    def remove(self, fd: int) -> None:
        """The connection has opened, or ended. No effect if it is unknown."""
        host = self._hosts.pop(fd, None)
        if host is None:
            return
        of_host = self._by_host[host]
        del of_host[fd]
        if not of_host:
            del self._by_host[host]
        if self._crowded and len(self._hosts) * 2 <= self.most:
            self._crowded = False
            self._log("notice", f"the number of connections without an open is low again; {self.ended} ended so far")

    def _end_one(self) -> None:
        if not self._crowded:
            self._crowded = True
            self._log("warning", f"{REASON}: the oldest ones are ended from now on")
        crowd = max(self._by_host.values(), key=len)
        fd, end = next(iter(crowd.items()))
        self.ended += 1
        end(REASON)
        self.remove(fd)
