"""The checker finds each kind of violation that is planted, and allows what is promised."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.chaos.events import (
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
    from_row,
    to_row,
)
from tests.chaos.history import Terms, check

pytestmark = pytest.mark.engine_independent

LAST = Attached(100, "last", "", False)
"""The run goes on until then."""
TERMS = Terms(
    multicast=frozenset({"news"}),
    stored=frozenset({"queue"}),
    exchanges={"alerts": frozenset({"near", "far"})},
    kept=10,
)
QUEUE = [Attached(0, "p", "queue", True), Attached(0, "c", "queue", False), Attached(0, "d", "queue", False)]
ALERTS = [Attached(0, "p", "alerts", True), Attached(0, "c", "near", False), Attached(0, "d", "far", False)]
BEGIN = [Attached(0, "p", "work", True), Attached(0, "c", "work", False), Attached(0, "d", "work", False)]
NEWS = [Attached(0, "p", "news", True), Attached(0, "c", "news", False), Attached(0, "d", "news", False)]
CRASH = Fault(10.5, 12, "router killed", True)
PAUSE = Fault(10.5, 12, "router stopped", False)


def sent(message: str = "m", number: int = 0, at: float = 10.0, *, settled: bool = False) -> Sent:
    return Sent(at, "p", message, number, settled)


def received(link: str = "c", message: str = "m", at: float = 11.0, *, settled: bool = False) -> Received:
    return Received(at, link, message, settled)


def answered(state: str = "accepted", link: str = "c", at: float = 11.5) -> Answered:
    return Answered(at, link, "m", state)


def told(state: str = "accepted", at: float = 13.0) -> Outcome:
    return Outcome(at, "p", "m", state)


def kinds(events: Sequence[Event], begin: Sequence[Event] = BEGIN) -> list[str]:
    return [found.kind for found in check([*begin, *events, LAST], TERMS)]


GOOD: dict[str, Sequence[Event]] = {
    "accepted": [sent(), received(), answered(), told()],
    "rejected": [sent(), received(), answered("rejected"), told("rejected")],
    "released and delivered again": [sent(), received(), answered("released"), received("d", at=12), answered(link="d"),
                                     told()],
    "released and delivered to the same link again": [sent(), received(), answered("released"), received(at=12),
                                                      answered(at=12.5), told()],
    "given back by nobody": [sent(), told("released")],
    "given back by the end of a link": [sent(), received(), Gone(12, "c"), told("modified")],
    "twice, as a router was killed": [sent(), CRASH, received(), answered(), received("d", at=12.5), told("modified")],
    "accepted, the consumer was killed before it wrote that": [sent(), received(), Gone(11.1, "c", True), told()],
    "twice, as a router was killed, with two answers": [
        sent(), CRASH, received(), answered("rejected"), received(at=12.5), answered(at=12.6), told("rejected")],
    "settled, lost with a router": [sent(settled=True), CRASH],
    "no outcome, as the producer is gone": [sent(), received(), Gone(12, "p", True)],
    "written down late": [received(at=9.9), sent(), answered(), told()],
    "order changed by a loss": [
        sent("a", 0, settled=True), sent("b", 1, settled=True), CRASH,
        received(message="b", at=12, settled=True), received(message="a", at=13, settled=True)],
    "no credit, but no consumer": [Gone(5, "c"), Gone(5, "d"), Credit(10, "p", 0)],
    "no credit, as consumers are slow": [Credit(10, "p", 0), sent(), received(at=12), answered(), told(),
                                         sent("n", 1, at=13), received("d", "n", 13),
                                         Outcome(13, "p", "n", "released")],
    "a tenant's own": [Attached(0, "tp", "work", True, "t"), Attached(0, "tc", "work", False, "t"),
                       Sent(10, "tp", "t", 0, True), Received(11, "tc", "t", True)],
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_what_is_promised_is_no_violation(name: str) -> None:
    assert kinds(GOOD[name]) == []


BAD: dict[str, tuple[list[str], Sequence[Event]]] = {
    "accepted, never received": (["outcome", "loss"], [sent(), told()]),
    "settled and lost without a fault": (["loss"], [sent(settled=True)]),
    "settled and lost while a router only paused": (["loss"], [sent(settled=True), PAUSE]),
    "twice": (["duplicate"], [sent(), received(), answered(), received("d", at=12), told()]),
    "twice to the same link": (["duplicate"], [sent(), received(), answered(), received(at=12),
                                               answered("released", at=12.5), told()]),
    "twice, the fault was over before": (
        ["duplicate"], [Fault(1, 2, "cut", True), sent(), received(), answered(), received("d", at=12), told()]),
    "an outcome that nobody gave": (["outcome"], [sent(), received(), answered("rejected"), told("accepted")]),
    "accepted by the consumer, released to the producer": (
        ["outcome"], [sent(), received(), answered(), told("released")]),
    "in doubt without a reason": (["outcome"], [sent(), received(), answered(), told("modified")]),
    "two outcomes": (["outcome"], [sent(), received(), answered(), told(), told(at=14)]),
    "an outcome of what was sent settled": (["outcome"], [sent(settled=True), received(settled=True), told()]),
    "no outcome": (["waiting"], [sent(), received(), answered()]),
    "out of order": (["order"], [sent("a", 0, settled=True), sent("b", 1, settled=True),
                                 received(message="b", settled=True), received(message="a", at=12, settled=True)]),
    "out of order while a router only paused": (["order"], [
        sent("a", 0, settled=True), sent("b", 1, settled=True), PAUSE,
        received(message="b", settled=True), received(message="a", at=12, settled=True)]),
    "a stall": (["stall"], [Credit(10, "p", 0)]),
    "a stall that ended": (["stall"], [Credit(10, "p", 0), Credit(30, "p", 5)]),
    "another address": (["stranger"], [Attached(0, "x", "other", False), sent(), received("x"), answered(link="x"),
                                       told()]),
    "another tenant": (["stranger"], [Attached(0, "x", "work", False, "evil"), sent(settled=True),
                                      received("x", settled=True)]),
    "what nobody sent": (["phantom"], [received(message="ghost")]),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_planted_is_found(name: str) -> None:
    expected, events = BAD[name]
    assert kinds(events) == expected


def test_a_copy_of_a_multicast_message_is_missing() -> None:
    copies: list[Event] = [sent(settled=True), received(settled=True)]
    assert kinds(copies, NEWS) == ["hole"]
    assert kinds([*copies, received("d", settled=True)], NEWS) == []
    assert kinds([*copies, CRASH], NEWS) == []
    assert kinds([*copies, Attached(9, "late", "news", False), received("d", settled=True)], NEWS) == []


def test_a_consumer_of_a_multicast_message_rejects_it() -> None:
    copies: list[Event] = [sent(), received(), answered(), received("d"), answered("rejected", "d")]
    assert kinds([*copies, told("rejected")], NEWS) == []
    assert kinds([*copies, told()], NEWS) == ["outcome"]
    assert kinds([*copies, Gone(12, "d", True), told()], NEWS) == []


def test_two_copies_for_one_consumer_of_a_multicast_message() -> None:
    copies: list[Event] = [sent(settled=True), received(settled=True), received("d", settled=True)]
    assert kinds([*copies, received("d", at=12, settled=True)], NEWS) == ["duplicate"]


def test_through_a_queue_of_a_broker() -> None:
    took: list[Event] = [sent(), told(at=10.2), received(), answered()]
    assert kinds(took, QUEUE) == []
    assert kinds(took[:2], QUEUE) == ["loss"]
    assert kinds([*took[:3], answered("rejected")], QUEUE) == ["loss"]
    assert kinds([*took[:3], answered("rejected"), received("d", at=12), answered(link="d", at=12.5)], QUEUE) == []
    assert kinds([*took, received("d", at=12)], QUEUE) == ["duplicate"]
    assert kinds([sent(), told("released", 12)], QUEUE) == []
    assert kinds([sent(), received(), answered(), told("released", 12)], QUEUE) == ["outcome"]
    assert kinds([sent(), told("modified", 10.2)], QUEUE) == ["outcome"]
    assert kinds([sent(), CRASH, told("modified", 11)], QUEUE) == []
    assert kinds([sent(), told("rejected", 11)], QUEUE) == ["outcome"]


@pytest.mark.parametrize(
    ("state", "come", "found"),
    [("committed", 2, []), ("committed", 1, ["torn"]), ("committed", 0, ["torn"]), ("aborted", 0, []),
     ("aborted", 1, ["torn"]), ("", 0, []), ("", 1, ["torn"]), ("", 2, [])],
)  # fmt: skip
def test_of_a_transaction_all_messages_arrive_or_none(state: str, come: int, found: list[str]) -> None:
    events: list[Event] = [Sent(10, "p", name, number, transaction="t") for number, name in enumerate("ab")]
    for name in "ab"[:come]:
        events += [received(message=name), Answered(11.5, "c", name, "accepted")]
    if state:
        events.append(Concluded(12, "p", "t", state))
    assert kinds(events, QUEUE) == found


ASKS = [
    Attached(0, "p", "work", True), Attached(0, "c", "work", False), Attached(0, "r", "", True),
    Attached(0, "inbox", "temp/1", False), Attached(0, "other", "temp/2", False),
]  # fmt: skip
REQUEST: list[Event] = [Sent(10, "p", "m", 0, reply_to="temp/1"), received(), answered()]
REPLY = Sent(11.4, "r", "n", 0, to="temp/1", answers="m")
REPLIED: list[Event] = [REPLY, Received(12, "inbox", "n"), Answered(12, "inbox", "n", "accepted")]


@pytest.mark.parametrize(
    ("replies", "found"),
    [
        ([*REPLIED, Outcome(13, "r", "n", "accepted")], []),
        ([], ["unanswered"]),
        ([REPLY], ["waiting"]),
        ([REPLY, Outcome(13, "r", "n", "accepted")], ["outcome", "loss"]),
        ([REPLY, Outcome(13, "r", "n", "released")], []),
        ([REPLY, CRASH, Outcome(13, "r", "n", "modified")], []),
        ([REPLY, Gone(13, "r", True)], []),
        ([Sent(11.4, "r", "n", 0, to="temp/2", answers="m"), Gone(13, "r", True)], ["unanswered", "unanswered"]),
        ([*REPLIED, Sent(11.5, "r", "o", 1, to="temp/1", answers="m"), Gone(13, "r", True)], ["unanswered"]),
        ([REPLY, Received(12, "other", "n"), Gone(13, "r", True)], ["stranger"]),
    ],
)
def test_a_request_that_was_accepted_has_one_reply_or_its_responder_knows_of_the_loss(
    replies: list[Event], found: list[str]
) -> None:
    assert kinds([*REQUEST, told(), *replies], ASKS) == found


def test_a_request_that_was_given_back_or_came_twice_has_as_many_replies_as_it_was_accepted() -> None:
    assert kinds([*REQUEST[:2], answered("released"), told("released")], ASKS) == []
    assert kinds([*REQUEST[:2], Gone(12, "c", True), told()], ASKS) == []  # it may have accepted, nobody wrote it down
    again: list[Event] = [CRASH, received(at=12.1), answered(at=12.2), told("modified"), Gone(14, "r", True)]
    assert kinds([*REQUEST, *again, *REPLIED, Sent(12.1, "r", "o", 1, to="temp/1", answers="m")], ASKS) == []


def test_what_waited_for_a_consumer_that_left_may_come_late_at_a_fallback_consumer() -> None:
    begin = [Attached(0, "p", "work", True), Attached(0, "c", "work", False, fallback=True)]
    begin.append(Attached(0, "d", "work", False))
    events: list[Event] = [sent("a", 0, settled=True), sent("b", 1, settled=True), received(message="b", settled=True),
                           received(message="a", at=12, settled=True)]  # fmt: skip
    assert kinds(events, begin) == ["order"]
    assert kinds([*events, Gone(10.5, "d")], begin) == []
    assert kinds([*events, Gone(9, "d")], begin) == []  # a router did not know it yet
    assert kinds([*events, Gone(7, "d")], begin) == ["order"]
    assert kinds([*events, Gone(11.5, "d")], begin) == ["order"]  # the later one came before that
    assert kinds([*events, Gone(10.5, "d")], BEGIN) == ["order"]  # both went to a consumer of the address itself


def test_an_exchange_copies_to_each_of_its_addresses() -> None:
    copies: list[Event] = [sent(), told(at=10.5), received(settled=True), received("d", settled=True)]
    assert kinds(copies, ALERTS) == []
    assert kinds(copies[:3], ALERTS) == ["loss"]
    assert kinds([*copies[:3], CRASH], ALERTS) == []
    assert kinds([*copies, received("d", at=12, settled=True)], ALERTS) == ["duplicate"]
    assert kinds([*copies, Attached(0, "x", "work", False), received("x", settled=True)], ALERTS) == ["stranger"]


def _flood(until: float, missing: int, link: str = "c") -> list[Event]:
    """12 messages, one each 0.1 s. What one consumer gets comes at `until`, one in 0.1 s, without the missing one."""
    events: list[Event] = []
    for number in range(12):
        name = f"m{number}"
        events.append(sent(name, number, at=10 + number * 0.1, settled=True))
        if number != missing:
            events.append(received(link, name, until + number * 0.1, settled=True))
    return events


def test_a_copy_is_dropped_where_more_wait_than_is_kept() -> None:
    others: list[Event] = [received("d", f"m{number}", 12, settled=True) for number in range(12)]
    assert kinds([*_flood(20, 11), *others], NEWS) == []
    assert kinds([*_flood(20, 10), *others], NEWS) == []
    assert kinds([*_flood(10.5, 11), *others], NEWS) == ["hole"]  # five waited
    assert kinds([*_flood(20, 0), *others], NEWS) == []  # how long it was on its way is not known
    late: list[Event] = [sent("n", 12, at=30, settled=True), received("d", "n", 31, settled=True)]
    assert kinds([*_flood(20, -1), *late, *others], NEWS) == ["hole"]  # none waited any more
    early: list[Event] = [sent("n", -2, at=9, settled=True), received("d", "n", 9.1, settled=True)]
    following: list[Event] = [sent("o", -1, at=9.2, settled=True)]
    following += [received(link, "o", 9.3, settled=True) for link in "cd"]
    assert kinds([*early, *_flood(20, -1), *others], NEWS) == []
    assert kinds([*early, *following, *_flood(20, -1), *others], NEWS) == ["hole"]  # the next one came before that


def test_a_copy_that_others_waited_for_is_no_reason() -> None:
    """What waits for one consumer is not dropped for another one, and nothing that is unsettled is."""
    others: list[Event] = [received("d", f"m{number}", 10.05 + number * 0.1, settled=True) for number in range(11)]
    assert kinds([*_flood(20, -1), *others], NEWS) == ["hole"]
    unsettled: list[Event] = [sent("n", 12, at=11.15), received("d", "n", 12)]
    unsettled += [Answered(12, "d", "n", "accepted"), Outcome(13, "p", "n", "accepted")]
    copies: list[Event] = [received("d", f"m{number}", 12, settled=True) for number in range(12)]
    assert kinds([*_flood(20, -1), *copies, *unsettled], NEWS) == ["hole"]


def test_a_message_is_dropped_where_more_wait_than_is_kept() -> None:
    assert kinds(_flood(20, 11)) == []
    assert kinds(_flood(10.5, 11)) == ["loss"]
    assert kinds([*_flood(20, -1), sent("n", 12, at=30, settled=True)]) == ["loss"]
    released = [event for event in _flood(20, 11) if not isinstance(event, Received)]
    unsettled: list[Event] = [Sent(e.at, "p", e.message, e.number, False) for e in released[:11] if isinstance(e, Sent)]
    unsettled += [Outcome(20, "p", f"m{number}", "released") for number in range(11)]
    assert kinds([*unsettled, released[11]]) == []


def test_faults_that_overlap() -> None:
    faults = Faults([Fault(1, 10, "", True), Fault(2, 3, "", True), Fault(20, 21, "", True)])
    spans = [(0, 0.5), (0, 1), (5, 6), (10, 12), (11, 19), (19, 20), (22, 30)]
    assert [faults.within(*span) for span in spans] == [False, True, True, True, False, True, False]
    assert not Faults([]).within(0, 10)


def test_events_come_back_from_their_rows() -> None:
    events: list[Event] = [*BEGIN, *GOOD["released and delivered again"], CRASH, Gone(3, "c", True), Credit(1, "p", 0)]
    events += [Concluded(14, "p", "t", "committed"), *REQUEST, REPLY]
    assert [from_row(to_row(event)) for event in events] == events
    with pytest.raises(KeyError):
        from_row(["Nothing", 1])
