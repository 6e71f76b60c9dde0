"""Limits the log lines that one host or other peer can cause without authorization. Pure."""

from __future__ import annotations

from dataclasses import dataclass

MAX_LINES = 100
"""Maximum number of lines about one host in a window: enough to see what the host tries."""
WINDOW_S = 60.0
MAX_HOSTS = 1000
"""Maximum number of hosts with limits of their own; further ones share one limit."""
OTHERS = "other hosts"


@dataclass(slots=True)
class _Window:
    since: float
    lines: int = 0
    left_out: int = 0


class LineLimit:
    """Counts lines by host, in a window that begins with the first line about the host. Times are in seconds."""

    def __init__(self, most: int = MAX_LINES, window_s: float = WINDOW_S, most_hosts: int = MAX_HOSTS) -> None:
        self._most = most
        self._window_s = window_s
        self._most_hosts = most_hosts
        self._windows: dict[str, _Window] = {}

    def admits(self, host: str, now: float) -> bool:
        """Whether to write a line about a host; counts it as written or left out."""
        window = self._windows.get(host)
        if window is None:
            key = host if len(self._windows) < self._most_hosts else OTHERS
            window = self._windows.setdefault(key, _Window(now))
        if window.lines >= self._most:
            window.left_out += 1
            return False
        window.lines += 1
        return True

    def ended(self, now: float) -> list[tuple[str, int]]:
        """End the windows that are over; returns each host with lines left out, and their number. Must be called every
        few seconds. After the clock was set back, all windows end."""
        over = [host for host, one in self._windows.items() if not 0 <= now - one.since < self._window_s]
        return [(host, left_out) for host in over if (left_out := self._windows.pop(host).left_out)]

    def end(self) -> list[tuple[str, int]]:
        """End all windows at once; returns the same as `ended`."""
        windows, self._windows = self._windows, {}
        return [(host, one.left_out) for host, one in windows.items() if one.left_out]
