"""What clients rely on with qdrouterd: distribution, credit, fallback. Items of docs/compatibility-items.md."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, REJECTED, RELEASED, Broker, Party, PartyLink
from tests.simulation.full.network import Network, SimRouter
from tests.simulation.full.oracle import faults
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.outcomes import modified
from waymesh_amqp.performatives import Terminus
from waymesh_amqp.states import OPENED
from waymesh_amqp.types import decode, encode

FALLBACK = "address {\nprefix: stored\nenableFallback: yes\n}\n"
FALLBACK_LINK = "autoLink {\naddress: stored\ndirection: out\nconnection: broker\nfallback: yes\n}\n"
UNAVAILABLE = "address {\nprefix: nobody\ndistribution: unavailable\n}\n"
NOT_FOUND = "amqp:not-found"


class Line:
    """Routers in a line and a client of each. `at`: the router with the broker, otherwise the last one."""

    def __init__(self, names: str = "A", extra: str = "", broker: bool = False, at: str = "") -> None:
        at = at or names[-1]
        self.network = Network()
        for name in names:
            self.network.router(name, extra + (FALLBACK_LINK if broker and name == at else ""))
        for one, other in pairwise(names):
            self.network.cable(one, other)
        if broker:
            self.broker = Broker(self.network)
            self.broker.connector(self.network.routers[at])
        self.network.start()
        self.network.until(lambda: not faults(self.network), 2.0)
        self.network.run(0.3)
        self.clients = {name: Client(self, self.network.routers[name]) for name in names}

    def __getitem__(self, name: str) -> Client:
        return self.clients[name]

    def run(self) -> None:
        """Let what was said arrive."""
        self.network.run(0.2)

    def counters(self, name: str) -> Any:
        return self.network.routers[name].core.counters


class Client(Party):
    """A client of one router with one session."""

    def __init__(self, line: Line, router: SimRouter) -> None:
        Party.__init__(self, line.network, f"client-{router.name}")
        self.line = line
        conn = self.dial(router)
        line.network.until(lambda: conn.state == OPENED, 1.0)
        self.session = conn.open_session()
        self.count = 0

    def to(self, address: str | None, **over: Any) -> PartyLink:
        self.count += 1
        link = self.sender(self.session, address, f"out-{self.count}", **over)
        self.line.run()
        return link

    def of(self, address: str, credit: int = 0, **over: Any) -> PartyLink:
        self.count += 1
        link = self.receiver(self.session, address, credit, f"in-{self.count}", **over)
        self.line.run()
        return link

    def sends(self, link: PartyLink, count: int, settled: bool = False) -> int:
        """Send up to `count` messages while there is credit, and let credit come; how many could be sent."""
        for number in range(count):
            if link.link.credit <= 0:
                self.line.run()
            if link.link.credit <= 0:
                return number
            self.send(link, message(b"%d" % number), settled)
        self.line.run()
        return count

    def credit(self, link: PartyLink, credit: int) -> None:
        """Have so much more credit, which is not renewed."""
        link.link.capacity = link.link.outstanding + credit
        link.link.grant()
        link.link.accepting = False
        self.wake()
        self.line.run()


# ---- 3: fallback


@pytest.mark.parametrize("names", ["A", "AB"])
def test_compat_03_fallback_gets_nothing_while_a_primary_is_attached(names: str) -> None:
    """A primary without credit, at another router than the sender where there are two: the message waits."""
    line = Line(names, FALLBACK, broker=True)
    primary = line[names[-1]].of("stored")
    sender = line["A"].to("stored")
    assert line["A"].sends(sender, 20) == 20
    assert (sender.outcomes, primary.got) == ([], [])
    assert not line.broker.links[0].got
    line[names[-1]].credit(primary, 15)
    assert len(primary.got) == 15
    for got in primary.got:
        line[names[-1]].settle(got)
    line.run()
    assert sender.outcomes == [(True, ACCEPTED)] * 15
    assert not line.broker.links[0].got


def test_compat_03_fallback_gets_nothing_from_a_primary_that_renews_its_credit() -> None:
    line = Line("A", FALLBACK, broker=True)
    client = line["A"]
    primary = client.of("stored", 10)
    sender = client.to("stored")
    for _ in range(10):
        client.sends(sender, 10)
        for got in primary.got[len(primary.got) - 10 :]:
            client.settle(got)
        line.run()
    assert len(primary.got) == 100
    assert not line.broker.links[0].got


def five_messages_lose_their_primary(line: Line, last: str) -> PartyLink:
    """Messages wait at the router `last` for a consumer without credit, which detaches; returns their sender."""
    primary = line[last].of("stored")
    sender = line["A"].to("stored")
    line["A"].sends(sender, 5)
    primary.link.detach()
    line[last].wake()
    line.run()
    return sender


@pytest.mark.parametrize("names", ["A", "AB"])
def test_compat_03_fallback_gets_what_waits_when_the_last_primary_goes(names: str) -> None:
    line = Line(names, FALLBACK, broker=True)
    sender = five_messages_lose_their_primary(line, names[-1])
    assert len(line.broker.links[0].got) == 5
    assert sender.outcomes == [(True, ACCEPTED)] * 5
    again = line[names[-1]].of("stored", 10)
    line["A"].sends(sender, 5)
    assert (len(again.got), len(line.broker.links[0].got)) == (5, 5)


@pytest.mark.parametrize(("names", "at"), [("AB", "A"), ("ABC", "B")])
def test_compat_03_what_would_go_back_to_the_fallback_is_released(names: str, at: str) -> None:
    """The messages have passed the router of the fallback destination on their way to the consumer."""
    line = Line(names, FALLBACK, broker=True, at=at)
    sender = five_messages_lose_their_primary(line, names[-1])
    assert sender.outcomes == [(True, RELEASED)] * 5
    line["A"].sends(sender, 5)
    assert len(line.broker.links[0].got) == 5


# ---- 4: unavailable


def test_compat_04_unavailable_attach_is_refused_with_node_not_found() -> None:
    line = Line("A", UNAVAILABLE)
    for link in (line["A"].to("nobody.1"), line["A"].of("nobody.1")):
        assert link.gone
        assert link.error is not None
        assert (link.error.condition, link.error.description) == (NOT_FOUND, "Node not found")


@pytest.mark.parametrize("extra", [UNAVAILABLE, "router {\ndefaultDistribution: unavailable\n}\n"])
def test_compat_04_unavailable_rejects_the_messages_of_anonymous_senders(extra: str) -> None:
    line = unavailable_by(extra)
    sender = line["A"].to(None)
    line["A"].send(sender, encode_message(Message(to="nobody.2", body="x")))
    line.run()
    ((settled, state),) = sender.outcomes
    assert settled
    assert state.startswith(REJECTED[:3])
    error = decode(state)[0].value[0].value
    assert error[:2] == [NOT_FOUND, "Deliveries cannot be sent to an unavailable address"]


def test_compat_04_unavailable_by_default_leaves_the_routers_own_addresses() -> None:
    line = unavailable_by("router {\ndefaultDistribution: unavailable\n}\n")
    client = line["A"]
    for address in ("$management", "_local/$management", "_topo/0/A/$management", "_topo/all/all/mine", "_local/mine"):
        assert not client.to(address).gone, address
    replies = client.of("", 10, source=Terminus("source", dynamic=True))
    assert not replies.gone
    assert replies.attach is not None
    assert replies.attach.source is not None
    request = client.to("$management")
    properties = {"operation": "GET-TYPES", "type": "org.amqp.management"}
    client.send(
        request,
        encode_message(Message(reply_to=replies.attach.source.address, application_properties=properties, body={})),
    )
    line.run()
    assert len(replies.got) == 1


def unavailable_by(extra: str) -> Line:
    """A router of this configuration; the entity `router` can be there once only."""
    if not extra.startswith("router"):
        return Line("A", extra)
    network = Network()
    router = network.router("A")
    text = router.configuration().replace("mode: interior\n", "mode: interior\ndefaultDistribution: unavailable\n")
    router.configuration = lambda: text  # type: ignore[method-assign]
    line = Line.__new__(Line)
    line.network = network
    network.start()
    network.run(0.3)
    line.clients = {"A": Client(line, router)}
    return line


# ---- 5: pre-settled deliveries


@pytest.mark.parametrize("names", ["A", "AB"])
def test_compat_05_presettled_credit_does_not_depend_on_consumers(names: str) -> None:
    line = Line(names)
    consumer = line[names[-1]].of("fast", 0)
    line[names[-1]].credit(consumer, 10)
    sender = line["A"].to("fast")
    assert line["A"].sends(sender, 2000, settled=True) == 2000
    assert len(consumer.got) == 10
    dropped = sum(line.counters(name).dropped_presettled for name in names)
    waiting = 1000
    assert dropped == 2000 - 10 - waiting
    line[names[-1]].credit(consumer, 2000)
    assert len(consumer.got) == 10 + waiting
    assert line.counters("A").presettled == 2000  # with those that were dropped


def test_compat_05_presettled_without_any_consumer_gets_no_credit() -> None:
    line = Line("A")
    sender = line["A"].to("fast")
    assert sender.link.credit == 0


# ---- 6, 7: credit and balance


def test_compat_06_drained_senders_see_the_outcome_they_would_see() -> None:
    """The last receiver leaves: what is under way is released, as where credit is drained later."""
    line = Line("A")
    consumer = line["A"].of("work", 10)
    sender = line["A"].to("work")
    assert sender.link.credit > 0
    line["A"].send(sender, message(b"one"))
    consumer.link.detach()
    line["A"].send(sender, message(b"two"))
    line["A"].wake()
    line.run()
    assert sender.outcomes[-1] == (True, RELEASED)
    assert len(sender.outcomes) == 2
    assert sender.link.credit == 0


def test_compat_07_balanced_over_a_line_counts_unsettled_deliveries_and_cost() -> None:
    """One consumer at each of three routers, none settles: the book's rule gives each its share."""
    line = Line("ABC")
    consumers = [line[name].of("work", 1000) for name in "ABC"]
    sender = line["A"].to("work")
    line["A"].sends(sender, 100)
    counts = [len(consumer.got) for consumer in consumers]
    assert sum(counts) == 100
    assert counts[0] >= counts[1] >= counts[2] > 0
    assert counts[0] - counts[2] <= 4  # apart by the cost of the way, no more


# ---- 12: states


def test_compat_12_states_of_modified_arrive_as_the_consumer_set_them() -> None:
    line = Line("AB")
    consumer = line["B"].of("work", 10)
    sender = line["A"].to("work")
    line["A"].sends(sender, 2)
    states = [encode(modified(True)), encode(modified(False))]
    for got, state in zip(consumer.got, states, strict=True):
        line["B"].settle(got, state)
    line.run()
    assert [state for _, state in sender.outcomes] == states


# ---- 14: null termini


@pytest.mark.parametrize("termini", [(), (Terminus("source"), Terminus("target"))])
def test_compat_14_null_terminus_in_the_answer_of_a_container_is_a_refusal(termini: tuple[Terminus, ...]) -> None:
    """The container answers the autolink without a target, or without its address: nothing is sent to it."""
    network = Network()
    router = network.router("A", "autoLink {\naddress: work\ndirection: out\nconnection: broker\n}\n")
    broker = NullBroker(network, *termini)
    broker.connector(router)
    network.start()
    network.run(1.0)
    line = Line.__new__(Line)
    line.network = network
    client = Client(line, router)
    consumer = client.of("work", 100)
    sender = client.to("work")
    client.sends(sender, 20)
    assert len(consumer.got) == 20
    assert not any(link.got for link in broker.links)
    (row,) = router.router.agent.adapters["router.config.autoLink"].rows(network.now)
    assert row["operStatus"] != "active"


class NullBroker(Broker):
    """A container that answers attaches with null termini, or with these."""

    def __init__(self, network: Network, *termini: Terminus) -> None:
        Broker.__init__(self, network)
        self.termini = termini or (None, None)

    def answer(self, party: PartyLink, attach: Any) -> None:
        party.link.accept(attach, *self.termini)
        if not party.link.is_sender:
            party.link.capacity = 100
            party.link.grant()
