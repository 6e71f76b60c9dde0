"""What clients and the schedule of faults write down during a run. Times: seconds of one monotonic clock.

A `link` is one attach of a client: after a reconnect, the client has another one. A `message` is one transfer of a
producer: a message that is sent again is another one.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import asdict, dataclass

ACCEPTED, REJECTED, RELEASED, MODIFIED = "accepted", "rejected", "released", "modified"
COMMITTED, ABORTED = "committed", "aborted"


@dataclass(frozen=True, slots=True)
class Attached:
    """A link is open on both sides. `tenant`: the vhost of its client; `fallback`: it is a fallback consumer."""

    at: float
    link: str
    address: str
    sender: bool
    tenant: str = ""
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class Gone:
    """A link has ended. `lost`: its connection broke, or its client was killed; else the client ended it."""

    at: float
    link: str
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Credit:
    """A producer's credit is 0, or above 0 again, while it has something to send."""

    at: float
    link: str
    credit: int


@dataclass(frozen=True, slots=True)
class Sent:
    """A producer has sent a message, the n-th of its link. `transaction`: in which it is sent; `to`: its address if
    its link has none; `reply_to`: where it asks for a reply; `answers`: the message to which it is the reply."""

    at: float
    link: str
    message: str
    number: int
    settled: bool = False
    priority: int = 4
    transaction: str = ""
    to: str = ""
    reply_to: str = ""
    answers: str = ""


@dataclass(frozen=True, slots=True)
class Concluded:
    """A producer was told how a transaction ended. `state`: committed, or aborted, which stands for a failed commit,
    too."""

    at: float
    link: str
    transaction: str
    state: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """A producer was told an outcome, settled."""

    at: float
    link: str
    message: str
    state: str


@dataclass(frozen=True, slots=True)
class Received:
    """A consumer has a message whole. `settled`: by the router, so that the consumer gives no outcome."""

    at: float
    link: str
    message: str
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """A consumer has settled a message that it received."""

    at: float
    link: str
    message: str
    state: str


@dataclass(frozen=True, slots=True)
class Fault:
    """From `at` to `until`, the effects included, something was broken. `breaks`: connections or routers were lost, so
    that deliveries on their way may be lost, too, or come twice."""

    at: float
    until: float
    what: str
    breaks: bool


Event = Attached | Gone | Credit | Sent | Concluded | Outcome | Received | Answered | Fault
KINDS: dict[str, type[Event]] = {
    kind.__name__: kind for kind in (Attached, Gone, Credit, Sent, Concluded, Outcome, Received, Answered, Fault)
}


def to_row(event: Event) -> list[object]:
    """An event as a row of JSON: its kind, then its fields."""
    return [type(event).__name__, *asdict(event).values()]


def from_row(row: list[object]) -> Event:
    """The event of a row. Raises KeyError and TypeError for what is none."""
    kind, *fields = row
    return KINDS[str(kind)](*fields)  # type: ignore[arg-type]


class Faults:
    """The times at which something was broken."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        spans = sorted((fault.at, fault.until) for fault in faults)
        self._begins = [begin for begin, _ in spans]
        self._latest = list(itertools.accumulate((until for _, until in spans), max))
        """The latest end of a fault up to each one."""

    def within(self, begin: float, end: float) -> bool:
        """Whether something was broken at a time between the two."""
        number = bisect_right(self._begins, end)
        return number > 0 and self._latest[number - 1] >= begin
