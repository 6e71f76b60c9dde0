"""Requests and answers that wait to be sent to single routers, and retries of unanswered requests.

An LSR or MAR, or the answer to one, needs a path; until there is one, it waits. In a changing mesh a request or its
answer can get lost, and the next RA may be 30 s away, so requests are repeated.
"""

from __future__ import annotations

import math
from collections.abc import Container
from enum import Enum
from heapq import heappop, heappush

# Delay of the first retry; it doubles with each retry, up to the maximum. A router of Dispatch answers at once but
# processes changes once a second. When hundreds of routers start together, the last lost request decides when the mesh
# is complete, so the delay must not be long. Requests only go to reachable routers, so few of them stay unanswered.
RETRY_FIRST_S = 0.1
RETRY_MAX_S = 1.0


class Kind(Enum):
    """The kind of message to send."""

    LSR = "LSR"
    LSU = "LSU"
    MAR = "MAR"
    MAU = "MAU"


class _Request:
    __slots__ = ("again", "due", "number", "retry", "sent")

    def __init__(self, number: int, due: float) -> None:
        self.number = number
        self.due = due
        self.retry = RETRY_FIRST_S
        self.sent = False
        self.again = False


class Requests:
    """`wake` is the time of the next `due` (or a little earlier).

    After the start of a mesh of a thousand routers, thousands of requests wait: a heap finds those that are due.
    """

    def __init__(self) -> None:
        self.wake = math.inf
        self._waiting: dict[tuple[str, Kind], _Request] = {}
        # Time, request number and key. An entry is stale if its request is gone or due at another time.
        self._times: list[tuple[float, int, tuple[str, Kind]]] = []
        self._count = 0

    def want(self, router_id: str, kind: Kind, at: float) -> None:
        """Send this at the given time. If it was sent and is unanswered, only record that there is a newer reason."""
        request = self._waiting.get((router_id, kind))
        if request is None:
            self._count += 1
            request = self._waiting[router_id, kind] = _Request(self._count, math.inf)
            self._set_due((router_id, kind), request, at)
        elif request.sent:
            request.again = True
        elif at < request.due:
            self._set_due((router_id, kind), request, at)

    def answered(self, router_id: str, kind: Kind, now: float, complete: bool) -> None:
        """An answer arrived. If it is incomplete, the request is due now if it was wanted again after it was sent,
        otherwise at the time of its retry.
        """
        request = self._waiting.get((router_id, kind))
        if request is None:
            return
        if complete:
            del self._waiting[router_id, kind]
        elif request.again:
            request.again = False
            self._set_due((router_id, kind), request, now)

    def forget(self, router_id: str) -> None:
        """Drop everything for a router."""
        for kind in Kind:
            self._waiting.pop((router_id, kind), None)

    def retain(self, known: Container[str]) -> None:
        """Drop everything for routers that are no longer known."""
        for key in [key for key in self._waiting if key[0] not in known]:
            del self._waiting[key]

    def release(self, router_id: str, now: float) -> None:
        """The router became reachable: its waiting messages are due."""
        for kind in Kind:
            request = self._waiting.get((router_id, kind))
            if request is not None and request.due == math.inf:
                self._set_due((router_id, kind), request, now)

    def due(self, now: float) -> list[tuple[str, Kind]]:
        """The messages to send now, in the order in which they were first requested."""
        found = set()
        while self._times and self._times[0][0] <= now:
            at, number, key = heappop(self._times)
            if self._is_current(at, number, key):
                found.add((number, key))
        return [key for _, key in sorted(found, key=lambda entry: entry[0])]

    def park(self, router_id: str, kind: Kind) -> None:
        """There is no path: the message waits for `release`."""
        self._waiting[router_id, kind].due = math.inf

    def sent(self, router_id: str, kind: Kind, now: float, repeat: bool) -> None:
        """The message was sent; with `repeat`, it is sent again until it is answered."""
        if not repeat:
            del self._waiting[router_id, kind]
            return
        request = self._waiting[router_id, kind]
        request.sent = True
        self._set_due((router_id, kind), request, now + request.retry)
        request.retry = min(2 * request.retry, RETRY_MAX_S)

    def awaits_answers(self) -> bool:
        """Whether a request to a reachable router is unanswered."""
        return any(
            kind in (Kind.LSR, Kind.MAR) and request.due < math.inf for (_, kind), request in self._waiting.items()
        )

    def rearm(self) -> None:
        """Recompute `wake` after due messages were handled."""
        times = self._times
        while times and not self._is_current(*times[0]):
            heappop(times)
        self.wake = times[0][0] if times else math.inf

    def _set_due(self, key: tuple[str, Kind], request: _Request, at: float) -> None:
        request.due = at
        if at < math.inf:
            heappush(self._times, (at, request.number, key))
            self.wake = min(self.wake, at)

    def _is_current(self, at: float, number: int, key: tuple[str, Kind]) -> bool:
        request = self._waiting.get(key)
        return request is not None and request.number == number and request.due == at
