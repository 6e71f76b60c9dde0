"""Controls garbage collection while proton runs in other threads."""

from __future__ import annotations

import gc
import threading
from typing import Any

import proton


class Garbage:
    """Keeps Python from collecting garbage while proton's threads run.

    Proton's objects count their references without locks. Collected by another thread than their container's, they
    would be counted down while that one works on them: a crash now and then, also as late as the process's end.

    Tried, mostly with glibc's heap checks, in processes that load proton and nothing of the router: 1 of 75 that
    collected beside four busy containers aborted, none of 160 that did not. The compiled engine's own tests pass under
    the same checks and PYTHONMALLOC=debug.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0

    def hold(self) -> None:
        """One thread more."""
        with self._lock:
            self._threads += 1
            gc.disable()

    def let_go(self) -> None:
        """One thread less."""
        with self._lock:
            self._threads -= 1
            if not self._threads:
                gc.enable()


def free(connection: proton.Connection) -> None:
    """Let go what a connection's C objects hold of Python's: circles through them, which gc cannot see, would keep the
    connection with all its deliveries to the end of the process. For a connection whose container has stopped."""
    ends: list[Any] = [connection, connection.transport, *_list(connection.session_head(0))]
    ends += _list(connection.link_head(0))
    for end in ends:
        if end is not None:
            end.__dict__["_attrs"].clear()


def _list(first: Any) -> list[Any]:
    """The sessions or links of a connection."""
    found = []
    while first is not None:
        found.append(first)
        first = first.next(0)
    return found


GARBAGE = Garbage()
