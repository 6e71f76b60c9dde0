"""Decides from the histories of all clients whether what happened to each message is allowed.

What is promised: docs/reliability.md. In short: an outcome is what a consumer said; an unsettled message that was
accepted has arrived; no message arrives twice unless it was given back, or a connection or router was lost meanwhile; a
pre-settled message may be lost with a connection or router, or where more wait than decision 0006 keeps. Behind a
broker's queue, outcomes are the broker's, what was accepted comes to a consumer that accepts it, and of a transaction
all messages arrive or none.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.chaos.crowds import Crowds
from tests.chaos.events import (
    ABORTED,
    ACCEPTED,
    COMMITTED,
    MODIFIED,
    REJECTED,
    RELEASED,
    Answered,
    Attached,
    Concluded,
    Credit,
    Event,
    Fault,
    Faults,
    Gone,
    Outcome,
    Received,
    Sent,
)

GIVEN_BACK = (RELEASED, MODIFIED)


@dataclass(frozen=True, slots=True)
class Terms:
    """What the run promises. `multicast`: these addresses; `stored`: queues of a broker lie on the way; `exchanges`: to
    which addresses an exchange copies what is sent to its own. `kept`: so many messages wait at an address, or for one
    consumer of a multicast address, before a router drops pre-settled ones (decision 0006). `settling_s`: a consumer
    has been attached, or gone, this long before every router knows it; `stall_s`: so long a producer may be without
    credit while a consumer has some."""

    multicast: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()
    exchanges: dict[str, frozenset[str]] = field(default_factory=dict)
    kept: int = 1000
    settling_s: float = 2.0
    stall_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Violation:
    """`kind`: loss, hole, duplicate, order, outcome, waiting, stall, stranger, torn, unanswered or phantom."""

    kind: str
    message: str
    text: str


@dataclass(slots=True)
class Link:
    """One attach of a client; `end`: math.inf while it lasts."""

    terms: Attached
    end: float = math.inf
    lost: bool = False
    credit: list[Credit] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)


@dataclass(slots=True)
class Message:
    """A message and what became of it, in the order of time."""

    sent: Sent
    producer: Link
    outcomes: list[Outcome] = field(default_factory=list)
    receipts: list[Received] = field(default_factory=list)
    answers: dict[str, list[Answered]] = field(default_factory=dict)
    """By the consumer's link, which can get a message again after it gave it back."""

    @property
    def address(self) -> str:
        return self.sent.to or self.producer.terms.address

    @property
    def way(self) -> tuple[str, int, bool]:
        """What has the same one stays in order: the producer's link, the priority, and whether it was sent settled."""
        return self.sent.link, self.sent.priority, self.sent.settled

    def states(self) -> set[str]:
        """The outcomes that consumers gave; of a delivery that the router settled: accepted."""
        settled = {ACCEPTED for receipt in self.receipts if receipt.settled}
        return settled | {answer.state for answers in self.answers.values() for answer in answers}


class History:
    """All events of a run, in any order.

    There is one clock, but a message that arrives may be written down before its sending is: attaches and sendings are
    read first.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.links: dict[str, Link] = {}
        self.messages: dict[str, Message] = {}
        self.phantoms: list[Received] = []
        self.concluded: dict[str, str] = {}
        """How transactions ended, of those whose producers know."""
        ordered = sorted(events, key=lambda event: event.at)
        faults = [event for event in ordered if isinstance(event, Fault)]
        ends = [event for event in ordered if isinstance(event, Gone) and event.lost]
        lost = [Fault(event.at, event.at, f"{event.link} lost", True) for event in ends]
        self.breaks = Faults([fault for fault in faults if fault.breaks] + lost)
        self.faults = Faults(faults + lost)
        self.end = ordered[-1].at if ordered else 0.0
        for event in sorted(ordered, key=lambda event: not isinstance(event, Attached | Sent)):
            self._read(event)
        self.crowds = Crowds(self)

    def _read(self, event: Event) -> None:
        match event:
            case Attached():
                self.links[event.link] = Link(event)
            case Gone():
                self.links[event.link].end, self.links[event.link].lost = event.at, event.lost
            case Credit():
                self.links[event.link].credit.append(event)
            case Sent():
                self.messages[event.message] = Message(event, self.links[event.link])
            case Outcome():
                self.messages[event.message].outcomes.append(event)
            case Concluded():
                self.concluded[event.transaction] = event.state
            case Received():
                self._receive(event)
            case Answered() if event.message in self.messages:
                self.messages[event.message].answers.setdefault(event.link, []).append(event)

    def given_back(self, message: Message, receipt: Received, stored: bool = False) -> bool:
        """Whether a consumer has returned a message, by an outcome or by ending its link without any. `stored`: to a
        broker, which sends again what was rejected, too."""
        answers = message.answers.get(receipt.link, [])
        answer = next((one for one in answers if one.at >= receipt.at), None)
        if answer is not None:
            return answer.state in GIVEN_BACK or (stored and answer.state == REJECTED)
        return not receipt.settled and self.links[receipt.link].end < math.inf

    def _receive(self, event: Received) -> None:
        self.links[event.link].received.append(event)
        message = self.messages.get(event.message)
        if message is None:
            self.phantoms.append(event)
        else:
            message.receipts.append(event)


def check(events: Iterable[Event], terms: Terms) -> list[Violation]:
    """Everything that is not allowed, messages first."""
    history = History(events)
    return [
        *(Violation("phantom", got.message, f"{got.link} got what nobody sent") for got in history.phantoms),
        *(found for message in history.messages.values() for found in _of_message(history, message, terms)),
        *_order(history, terms),
        *_stalls(history, terms),
        *_torn(history),
        *_unanswered(history),
    ]


def _of_message(history: History, message: Message, terms: Terms) -> Iterator[Violation]:
    name = message.sent.message
    for receipt in message.receipts:
        link = history.links[receipt.link].terms
        allowed = terms.exchanges.get(message.address, (message.address,))
        if link.address not in allowed or link.tenant != message.producer.terms.tenant:
            yield Violation("stranger", name, f"{receipt.link} of {link.tenant}/{link.address} got it")
    wrong = _outcome(history, message, terms)
    if wrong:
        yield Violation("outcome", name, wrong)
    has_outcome = not (message.sent.settled or message.sent.transaction)
    if has_outcome and not message.outcomes and message.producer.end == math.inf:
        yield Violation("waiting", name, "its producer is still there, and was told nothing")
    if _is_lost(history, message, terms):
        text = f"sent at {message.sent.at:.3f} to {message.address}, received {len(message.receipts)} times"
        yield Violation("loss", name, text)
    for consumer in _holes(history, message, terms):
        yield Violation("hole", name, f"{consumer} did not get it")
    yield from _duplicates(history, message, terms)


def _outcome(history: History, message: Message, terms: Terms) -> str:
    """What is wrong with what the producer was told, "" if nothing is."""
    told, said = [outcome.state for outcome in message.outcomes], message.states()
    if message.sent.settled:
        return f"told {told} of what was sent settled" if told else ""
    if len(told) > 1:
        return f"told {told}"
    if not told:
        return ""
    (state,) = told
    if message.address in terms.stored or message.address in terms.exchanges:
        return _of_intermediary(history, message, state)
    if state in (ACCEPTED, REJECTED) and state not in said:
        # a consumer that was killed cannot write down what it said
        unknown = any(r.link not in message.answers and history.links[r.link].lost for r in message.receipts)
        return "" if unknown else f"told {state}, consumers said {sorted(said) or 'nothing'}"
    if state == RELEASED and said - {RELEASED}:
        return f"told {state}, consumers said {sorted(said)}"
    if state == MODIFIED and not (
        MODIFIED in said
        or any(history.given_back(message, receipt) for receipt in message.receipts)
        or history.breaks.within(message.sent.at, message.outcomes[0].at)
    ):
        return f"told {state}, consumers said {sorted(said) or 'nothing'}, and nothing was lost"
    if message.address in terms.multicast and REJECTED in said and state != REJECTED:
        if history.breaks.within(message.sent.at, message.outcomes[0].at):
            return ""  # what that consumer said may be lost, and others accepted
        return f"told {state}, a consumer said {REJECTED}"
    return ""


def _of_intermediary(history: History, message: Message, state: str) -> str:
    """What is wrong with an outcome that a broker or an exchange gave, or a router before it could."""
    if state == RELEASED and message.receipts:
        return f"told {state}, and {message.receipts[0].link} got it"
    if state == MODIFIED and not history.breaks.within(message.sent.at, message.outcomes[0].at):
        return f"told {state}, and nothing was lost"
    return f"told {state} without a reason" if state == REJECTED else ""


def _is_lost(history: History, message: Message, terms: Terms) -> bool:
    """Whether it should have arrived, and has not."""
    if message.address in terms.stored:
        is_kept = any(outcome.state == ACCEPTED for outcome in message.outcomes)
        unknown = any(r.link not in message.answers and history.links[r.link].lost for r in message.receipts)
        return is_kept and ACCEPTED not in message.states() and not unknown
    if message.address in terms.exchanges:
        come = {history.links[receipt.link].terms.address for receipt in message.receipts}
        is_kept = any(outcome.state == ACCEPTED for outcome in message.outcomes)
        missing = terms.exchanges[message.address] - come
        return is_kept and bool(missing) and not history.breaks.within(message.sent.at, history.end)
    if message.receipts:
        return False
    if not message.sent.settled:
        return any(outcome.state == ACCEPTED for outcome in message.outcomes)
    if message.address in terms.multicast or history.breaks.within(message.sent.at, history.end):
        return False
    return not history.crowds.may_drop(message, "", terms.kept)


def _holes(history: History, message: Message, terms: Terms) -> Iterator[str]:
    """Consumers that should have a copy of a multicast message, and have not."""
    if message.address not in terms.multicast:
        return
    if history.breaks.within(message.sent.at - terms.settling_s, history.end):
        return
    got = {receipt.link for receipt in message.receipts}
    for name, link in history.links.items():
        known = link.terms.at + terms.settling_s <= message.sent.at and link.end == math.inf
        if not known or link.terms.sender or link.terms.address != message.address or name in got:
            continue
        if not (message.sent.settled and history.crowds.may_drop(message, name, terms.kept)):
            yield name


def _duplicates(history: History, message: Message, terms: Terms) -> Iterator[Violation]:
    copies: dict[str, list[Received]] = defaultdict(list)
    for receipt in message.receipts:
        is_copied = message.address in terms.multicast
        copies[receipt.link if is_copied else history.links[receipt.link].terms.address].append(receipt)
    stored = message.address in terms.stored
    for receipts in copies.values():
        for first, second in itertools.pairwise(receipts):
            if not history.given_back(message, first, stored) and not history.breaks.within(message.sent.at, second.at):
                text = f"{first.link} got it at {first.at:.3f}, {second.link} at {second.at:.3f}"
                yield Violation("duplicate", message.sent.message, text)


def _order(history: History, terms: Terms) -> Iterator[Violation]:
    """What one producer sends on one link with one priority, one consumer gets in that order, redeliveries apart. A
    broker sends what was given back, and what follows it, in an order of its own."""
    for name, link in history.links.items():
        last: dict[tuple[str, int, bool], Message] = {}
        for receipt in link.received:
            message = history.messages.get(receipt.message)
            if message is None or message.address in terms.stored:
                continue
            if message.receipts[0] is not receipt and message.address not in terms.multicast:
                continue
            before = last.get(message.way)
            last[message.way] = message
            if before is None or before.sent.number <= message.sent.number:
                continue
            if link.terms.fallback and _ended(history, message, before.receipts[0].at, terms):
                continue  # one router knew of a consumer that left, another one, or the same one later, did not
            if not history.breaks.within(message.sent.at, receipt.at):
                yield Violation("order", message.sent.message, f"{name} got {before.sent.message} before it")


def _ended(history: History, message: Message, until: float, terms: Terms) -> bool:
    """Whether a consumer of the message's address has ended its link since it was sent, or shortly before, so that it
    could have been sent to that consumer."""
    return any(
        not (link.terms.sender or link.terms.fallback)
        and link.terms.address == message.address
        and message.sent.at <= link.end + terms.settling_s
        and link.end <= until
        for link in history.links.values()
    )


def _stalls(history: History, terms: Terms) -> Iterator[Violation]:
    """Producers that are without credit for long while a consumer of their address is there and nothing is broken."""
    for name, link in history.links.items():
        for number, empty in enumerate(link.credit):
            if empty.credit:
                continue
            following = link.credit[number + 1].at if number + 1 < len(link.credit) else min(link.end, history.end)
            begin = empty.at
            if following - begin < terms.stall_s or history.faults.within(begin, following):
                continue
            if any(
                not other.terms.sender and other.terms.address == link.terms.address
                and other.terms.at <= begin and other.end >= following and _is_idle(other, begin, following)
                for other in history.links.values()
            ):  # fmt: skip
                yield Violation("stall", "", f"{name} had no credit from {begin:.3f} to {following:.3f}")


def _is_idle(consumer: Link, begin: float, end: float) -> bool:
    """Whether a consumer got nothing in that time: one that gets something is only slow."""
    times = [receipt.at for receipt in consumer.received]
    at = bisect_left(times, begin)
    return at == len(times) or times[at] > end


def _torn(history: History) -> Iterator[Violation]:
    """Transactions of which a part has come, or one that was committed has not, or one that was aborted has."""
    parts: dict[str, list[Message]] = defaultdict(list)
    for message in history.messages.values():
        if message.sent.transaction:
            parts[message.sent.transaction].append(message)
    for name, messages in parts.items():
        state = history.concluded.get(name, "")
        come = sum(bool(message.receipts) for message in messages)
        allowed = {COMMITTED: (len(messages),), ABORTED: (0,)}.get(state, (0, len(messages)))
        if come not in allowed:
            yield Violation("torn", name, f"{state or 'without an answer'}: {come} of {len(messages)} messages came")


def _unanswered(history: History) -> Iterator[Violation]:
    """Requests that were accepted without a reply to where they asked for one, or that have more replies than receipts.
    What becomes of a reply is decided as of any other message: it comes, or its responder is told that it does not."""
    replies: dict[str, list[Message]] = defaultdict(list)
    for message in history.messages.values():
        replies[message.sent.answers].append(message)
    for name, request in history.messages.items():
        if not request.sent.reply_to:
            continue
        fitting = [reply for reply in replies[name] if reply.address == request.sent.reply_to]
        is_accepted = any(outcome.state == ACCEPTED for outcome in request.outcomes)
        unknown = any(r.link not in request.answers and history.links[r.link].lost for r in request.receipts)
        if is_accepted and not fitting and not unknown:
            yield Violation("unanswered", name, "accepted, and no responder replied")
        if len(replies[name]) > len(request.receipts) or len(fitting) < len(replies[name]):
            text = f"received {len(request.receipts)} times, replies {[reply.sent.message for reply in replies[name]]}"
            yield Violation("unanswered", name, text)
