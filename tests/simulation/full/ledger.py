"""The fate of each message of a random workload, and whether it is allowed.

Source of what outcomes promise: routing chapter "Message Settlement and Reliability".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.simulation.full.world import World

SETTLING_S = 0.02
"""A change of paths is over, on links of some milliseconds, this long after the last router found other ones."""
UNKNOWN = 0
ACCEPTED = 0x24
REJECTED = 0x25
RELEASED = 0x26
MODIFIED = 0x27
NAMES = {UNKNOWN: "unknown", ACCEPTED: "accepted", REJECTED: "rejected", RELEASED: "released", MODIFIED: "modified"}


@dataclass(slots=True)
class Receipt:
    """A consumer got the whole message. `outcome`: what it answered, UNKNOWN if its link ended before it did."""

    consumer: str
    at: float
    outcome: int = UNKNOWN


@dataclass(slots=True)
class Sent:
    """A message. `outcomes`: what its sender was told; `orphan`: the sender's link ended before it was told any;
    `group`: of which message group it is, `sender`: who sent it, for the order in it."""

    number: int
    address: str
    multicast: bool
    settled: bool
    at: float
    outcomes: list[int] = field(default_factory=list)
    orphan: bool = False
    receipts: list[Receipt] = field(default_factory=list)
    group: str = ""
    sender: object = None

    @property
    def open(self) -> bool:
        return not (self.settled or self.orphan or self.outcomes)


class Ledger:
    """All messages of a run by number."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sent: list[Sent] = []
        self.unexpected: list[str] = []

    def new(self, address: str, multicast: bool, settled: bool) -> Sent:
        message = Sent(len(self.sent), address, multicast, settled, self.world.now)
        self.sent.append(message)
        return message

    def open(self) -> int:
        """Unsettled messages whose senders wait for an outcome."""
        return sum(message.open for message in self.sent)

    def summary(self) -> Counter[str]:
        """Messages by kind and what became of them."""
        found: Counter[str] = Counter()
        for m in self.sent:
            kind = ("multicast " if m.multicast else "anycast ") + ("settled" if m.settled else "unsettled")
            fate = "orphan" if m.orphan else "/".join(NAMES[o] for o in m.outcomes) or f"{len(m.receipts)} receipts"
            found[f"{kind} {fate}"] += 1
        return found

    def violations(self, changes: Sequence[float] = (), faultless: bool = False) -> list[str]:
        """Messages of which something is wrong. `faultless`: nothing was killed or cut, so that nothing may be lost.

        `changes`: when a router found other paths, in order. Copies of a multicast message go by the trees of several
        routers. While these do not agree about a change yet, two of them may lead to one consumer; nothing tells.
        """
        found = list(self.unexpected)
        for m in self.sent:
            wrong = self._wrong(m) or (self._missing(m) if faultless else "") or self._doubled(m, changes)
            if wrong:
                found.append(f"{wrong}: {m}")
        return found

    def _wrong(self, m: Sent) -> str:
        if len(m.receipts) > 1 and not m.multicast:
            return "received twice"
        if m.settled:
            return "an outcome of a settled delivery" if m.outcomes else ""
        if m.orphan:
            return "an outcome for a link that is gone" if m.outcomes else ""
        if len(m.outcomes) != 1:
            return f"{len(m.outcomes)} outcomes"
        answers = {receipt.outcome for receipt in m.receipts}
        return self._untrue_multicast(m.outcomes[0], answers) if m.multicast else self._untrue(m.outcomes[0], answers)

    def _doubled(self, m: Sent, changes: Sequence[float]) -> str:
        consumers = Counter(receipt.consumer for receipt in m.receipts)
        if max(consumers.values(), default=0) < 2:
            return ""
        before = bisect_left(changes, m.at - SETTLING_S)
        after = bisect_right(changes, max(receipt.at for receipt in m.receipts))
        return "received twice by one consumer" if before == after else ""

    def _untrue(self, outcome: int, answers: set[int]) -> str:
        """Anycast: what the consumer said, or released where none had the whole message, or modified in doubt."""
        if outcome in (ACCEPTED, REJECTED) and answers != {outcome}:
            return f"{NAMES[outcome]} without that"
        if outcome == RELEASED and answers - {RELEASED}:
            return "released although received"
        return ""

    def _untrue_multicast(self, outcome: int, answers: set[int]) -> str:
        if outcome in (ACCEPTED, REJECTED) and outcome not in answers:
            return f"{NAMES[outcome]} without that"
        if outcome == RELEASED and answers - {RELEASED}:
            return "released although received"
        return ""

    def _missing(self, m: Sent) -> str:
        """Nothing was killed: all is received, and the sender is told exactly what the consumers said."""
        if not m.receipts:
            return "not received"
        if m.settled:
            return ""
        answers = {receipt.outcome for receipt in m.receipts}
        strongest = next(o for o in (REJECTED, ACCEPTED, MODIFIED, RELEASED, UNKNOWN) if o in answers)
        return "" if m.outcomes == [strongest] else "another outcome than that of the consumers"
