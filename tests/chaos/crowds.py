"""Decides whether a router may have dropped a pre-settled message because more wait than decision 0006 keeps.

The histories of the clients tell it: what waits at a router was sent before, and comes to a consumer later.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING

from tests.chaos.events import Fault, Faults

if TYPE_CHECKING:
    from tests.chaos.history import History, Message

Way = tuple[str, int, bool]


class Crowds:
    """The times at which many messages of an address waited."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._times: dict[tuple[str, str, str], dict[int, Faults]] = defaultdict(dict)
        self._came: dict[str, dict[Way, list[tuple[int, float]]]] = {}

    def may_drop(self, message: Message, consumer: str, kept: int) -> bool:
        """Whether `kept` messages or more waited when this pre-settled one came to a router. `consumer`: the link that
        should have got a copy; "": any consumer should have got the message.

        A copy came to its router after it was sent, and before the next one of its way reached the consumer. Messages
        for any consumer can take different ways: there, the end of the run is the limit.
        """
        until = self._next_at(message, consumer) if consumer else self._history.end
        return self._crowded(message, consumer, kept).within(message.sent.at, until)

    def _crowded(self, message: Message, consumer: str, kept: int) -> Faults:
        """When so many messages of the address of this one waited, which the consumer got later; without a consumer,
        which anyone got later, or which ended without one."""
        tenant = message.producer.terms.tenant
        found = self._times[tenant, message.address, consumer]
        if kept not in found:
            changes: list[tuple[float, int]] = []
            for other in self._history.messages.values():
                if other.address == message.address and other.producer.terms.tenant == tenant:
                    ends = [receipt.at for receipt in other.receipts if consumer in ("", receipt.link)]
                    ends += [] if consumer else [outcome.at for outcome in other.outcomes]
                    changes += [(other.sent.at, 1), (min(ends), -1)] if ends else []
            changes.sort()
            counts = itertools.accumulate(change for _, change in changes)
            spans = zip(itertools.pairwise(at for at, _ in changes), counts, strict=False)
            found[kept] = Faults([Fault(*span, "", False) for span, count in spans if count >= kept])
        return found[kept]

    def _next_at(self, message: Message, consumer: str) -> float:
        """When the consumer got the next message of the same way; the end of the run if it got none."""
        if consumer not in self._came:
            came = self._came[consumer] = defaultdict(list)
            for receipt in self._history.links[consumer].received:
                other = self._history.messages.get(receipt.message)
                if other is not None:
                    came[other.way].append((other.sent.number, receipt.at))
        later = self._came[consumer].get(message.way, [])
        place = bisect_left(later, (message.sent.number, math.inf))
        return later[place][1] if place < len(later) else self._history.end
