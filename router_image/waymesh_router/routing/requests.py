"""Questions and answers that are still to be sent to single routers, with the repetition of unanswered questions.

An LSR or MAR, or the answer to one, can only be sent when there is a path; until then it waits. In a changing mesh a
question or its answer can get lost, and the next RA may be 30 s away, therefore questions are repeated.
"""

from __future__ import annotations

import math
from collections.abc import Container
from enum import Enum
from heapq import heappop, heappush

# First repetition after this; then doubled each time up to the maximum. A C router answers at once but acts on news
# once a second. When hundreds of routers start together, the last question that gets lost decides when the mesh is
# complete, so the wait after it must not be long. Only routers that can be reached are asked: few questions stay open.
RETRY_FIRST_S = 0.1
RETRY_MAX_S = 1.0


class Kind(Enum):
    """What is to be sent."""

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
    """`wake` is when `due` is next needed (or a little before).

    After the start of a mesh of a thousand routers thousands of requests wait: a heap finds those that are due.
    """

    def __init__(self) -> None:
        self.wake = math.inf
        self._waiting: dict[tuple[str, Kind], _Request] = {}
        # Time, request number and key. An entry whose request is gone or due at another time is stale.
        self._times: list[tuple[float, int, tuple[str, Kind]]] = []
        self._count = 0

    def want(self, router_id: str, kind: Kind, at: float) -> None:
        """Send this at the given time. If it was sent and is not answered, only note that there is a newer reason."""
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
        """An answer came. An incomplete one makes the question due again if something newer was heard since it was
        asked (else its repetition does).
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
        """Drop everything for routers that are not known any more."""
        for key in [key for key in self._waiting if key[0] not in known]:
            del self._waiting[key]

    def release(self, router_id: str, now: float) -> None:
        """The router became reachable: what waited for that is due."""
        for kind in Kind:
            request = self._waiting.get((router_id, kind))
            if request is not None and request.due == math.inf:
                self._set_due((router_id, kind), request, now)

    def due(self, now: float) -> list[tuple[str, Kind]]:
        """What is to be sent now, in the order in which it was first wanted."""
        found = set()
        while self._times and self._times[0][0] <= now:
            at, number, key = heappop(self._times)
            if self._is_current(at, number, key):
                found.add((number, key))
        return [key for _, key in sorted(found, key=lambda entry: entry[0])]

    def park(self, router_id: str, kind: Kind) -> None:
        """There is no path: keep it until `release`."""
        self._waiting[router_id, kind].due = math.inf

    def sent(self, router_id: str, kind: Kind, now: float, repeat: bool) -> None:
        """It was sent; with `repeat` it is sent again until it is answered."""
        if not repeat:
            del self._waiting[router_id, kind]
            return
        request = self._waiting[router_id, kind]
        request.sent = True
        self._set_due((router_id, kind), request, now + request.retry)
        request.retry = min(2 * request.retry, RETRY_MAX_S)

    def awaits_answers(self) -> bool:
        """Whether a question to a router that can be reached is open."""
        return any(
            kind in (Kind.LSR, Kind.MAR) and request.due < math.inf for (_, kind), request in self._waiting.items()
        )

    def rearm(self) -> None:
        """Compute `wake` anew, after what was due has been handled."""
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
