"""Exchanges and bindings, on one router and in a mesh; the configuration is the example of docs/exchanges.md."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.full.containers import ACCEPTED, RELEASED, Party, PartyLink
from tests.simulation.full.network import Network, SimRouter
from tests.simulation.full.oracle import faults
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.outgoing import send_first
from waymesh_amqp.performatives import Transfer, encode_frame
from waymesh_amqp.states import OPENED
from waymesh_router.management.errors import ManagementError

PAGE = (Path(__file__).parents[3] / "docs" / "exchanges.md").read_text(encoding="utf-8")
EXAMPLE = PAGE.partition("<!-- example: ")[2].split("```\n")[1]
EXCHANGE, BINDING = "router.config.exchange", "router.config.binding"


class World:
    """Routers in a line; the first has the exchange of the example unless `at` names another. `each`: more of one."""

    def __init__(self, names: str = "A", at: str = "A", more: str = "", each: Mapping[str, str] | None = None) -> None:
        self.network = Network()
        for name in names:
            self.network.router(name, (EXAMPLE if name == at else "") + more + (each or {}).get(name, ""))
        for one, other in pairwise(names):
            self.network.cable(one, other)
        self.network.start()
        self.network.until(lambda: not faults(self.network), 5.0)
        self.routers = self.network.routers
        self.party = Party(self.network, "client")
        self._sessions: dict[str, Any] = {}

    def session(self, router: str) -> Any:
        if router not in self._sessions:
            conn = self.party.dial(self.routers[router])
            self.network.until(lambda: conn.state == OPENED, 1.0)
            self._sessions[router] = conn.open_session()
        return self._sessions[router]

    def receiver(self, router: str, address: str, credit: int = 10) -> PartyLink:
        made = self.party.receiver(self.session(router), address, credit, name=f"in-{len(self.party.links)}")
        self.network.run(0.5)
        return made

    def sender(self, router: str, address: str | None = "news") -> PartyLink:
        made = self.party.sender(self.session(router), address, name=f"out-{len(self.party.links)}")
        self.network.until(lambda: made.link.credit > 0, 2.0)
        return made

    def send(self, sender: PartyLink, subject: str | None, to: str | None = None, **over: Any) -> None:
        self.party.send(sender, encode_message(Message(subject=subject, to=to, body="x")), **over)
        self.network.run(0.3)


def subjects(link: PartyLink) -> list[Any]:
    return [decode_message(got.data).subject for got in link.got]


def row(router: SimRouter, kind: str, **wanted: Any) -> dict[str, Any]:
    rows = router.router.agent.adapters[kind].rows(0.0)
    found: dict[str, Any] = next(one for one in rows if all(one[k] == v for k, v in wanted.items()))
    return found


def counts(router: SimRouter) -> list[int]:
    one = row(router, EXCHANGE, name="news")
    return [one[f"{name}Count"] for name in ("received", "forwarded", "diverted", "dropped")]


@pytest.mark.parametrize(("names", "at", "far"), [("A", "A", "A"), ("ABC", "B", "C")])
def test_each_matching_next_hop_gets_one_copy(names: str, at: str, far: str) -> None:
    world = World(names, at)
    europe, sports, rest = (
        world.receiver(router, address)
        for router, address in ((far, "office/europe"), ("A", "office/sports"), (far, "news/unmatched"))
    )
    sender = world.sender("A")
    for subject in ("eu.sports", "eu", "us.politics", None):
        world.send(sender, subject)
    assert subjects(europe) == ["eu.sports", "eu"]
    assert subjects(sports) == ["eu.sports"]
    assert subjects(rest) == ["us.politics", None]
    assert sender.outcomes == [(True, ACCEPTED)] * 4
    assert counts(world.routers[at]) == [4, 2, 2, 0]
    assert row(world.routers[at], BINDING, bindingKey="eu.#")["matchedCount"] == 2
    assert row(world.routers[at], EXCHANGE, name="news")["bindingCount"] == 2


def test_what_nobody_takes_is_released() -> None:
    world = World()
    sender = world.sender("A")
    world.send(sender, "eu")
    world.send(sender, None, settled=True)
    assert sender.outcomes == [(True, RELEASED)]
    assert counts(world.routers["A"]) == [2, 0, 0, 2]
    assert world.routers["A"].core.counters.dropped_presettled == 1


def test_consumers_of_the_address_get_the_message_too() -> None:
    world = World("AB")
    own, europe = world.receiver("B", "news"), world.receiver("A", "office/europe")
    sender = world.sender("A")
    world.send(sender, "eu")
    world.send(sender, None)
    assert (subjects(own), subjects(europe)) == (["eu", None], ["eu"])
    assert counts(world.routers["A"]) == [2, 2, 0, 0]


@pytest.mark.parametrize(("distribution", "copies"), [("multicast", [1, 1]), ("balanced", [0, 1])])
def test_the_distribution_of_a_next_hop_decides_who_gets_the_copy(distribution: str, copies: list[int]) -> None:
    world = World("AB", more=f"address {{\nprefix: office\ndistribution: {distribution}\n}}\n")
    near, far = world.receiver("A", "office/europe"), world.receiver("B", "office/europe")
    world.send(world.sender("A"), "eu")
    assert sorted((len(near.got), len(far.got))) == copies


def test_anonymous_senders_and_pre_settled_messages() -> None:
    world = World()
    europe = world.receiver("A", "office/europe")
    sender = world.sender("A", None)
    world.send(sender, "eu", to="news", settled=True)
    world.send(sender, "eu", to="news")
    assert subjects(europe) == ["eu", "eu"]
    assert world.routers["A"].core.counters.presettled == 1
    assert sender.outcomes == [(True, ACCEPTED)]


def test_copies_wait_for_credit() -> None:
    world = World()
    europe = world.receiver("A", "office/europe", credit=0)
    sender = world.sender("A")
    for _ in range(3):
        world.send(sender, "eu")
    assert sender.outcomes == [(True, ACCEPTED)] * 3
    assert world.routers["A"].core.budget.kept > 0
    europe.link.capacity = 10
    europe.link.grant()
    world.party.wake()
    world.network.run(0.3)
    assert len(europe.got) == 3
    assert world.routers["A"].core.budget.kept == 0
    assert world.routers["A"].core.counters.presettled == 0


def test_a_deleted_exchange_takes_its_bindings_with_it() -> None:
    world = World("AB", at="B")
    world.receiver("B", "office/europe")
    sender = world.sender("A")
    agent = world.routers["B"].router.agent
    agent.adapters[EXCHANGE].delete(row(world.routers["B"], EXCHANGE, name="news")["identity"])
    world.network.run(1.0)
    assert not list(agent.adapters[BINDING].rows(0.0))
    assert "M0news" not in world.routers["B"].core.addresses
    assert sender.link.credit == 0 or not world.routers["A"].core.addresses["M0news"].targets


def test_the_address_stays_known_when_a_consumer_leaves() -> None:
    world = World("AB", at="B")
    own = world.receiver("B", "news")
    europe = world.receiver("B", "office/europe")
    own.link.detach()
    world.party.wake()
    world.network.run(1.0)
    world.send(world.sender("A"), "eu")
    assert subjects(europe) == ["eu"]


@pytest.mark.parametrize(
    ("kind", "attributes", "status"),
    [
        (EXCHANGE, {"name": "news", "address": "other"}, 409),
        (EXCHANGE, {"name": "two", "address": "news"}, 409),
        (EXCHANGE, {"name": "two", "address": "office/europe"}, 400),
        (EXCHANGE, {"name": "two", "address": "a", "alternateAddress": "news"}, 400),
        (EXCHANGE, {"name": "two", "address": "a", "alternateAddress": "a"}, 400),
        (EXCHANGE, {"name": "two", "address": "$management"}, 400),
        (BINDING, {"exchangeName": "none", "nextHopAddress": "a"}, 400),
        (BINDING, {"exchangeName": "news", "nextHopAddress": "news"}, 400),
        (BINDING, {"exchangeName": "news", "nextHopAddress": "_topo/0/A/$management"}, 400),
        (BINDING, {"exchangeName": "news", "nextHopAddress": "office/europe", "bindingKey": "eu.#"}, 409),
    ],
)
def test_wrong_entities_are_refused_and_change_nothing(kind: str, attributes: dict[str, Any], status: int) -> None:
    world = World()
    agent = world.routers["A"].router.agent
    before = [list(agent.adapters[one].rows(0.0)) for one in (EXCHANGE, BINDING)]
    with pytest.raises(ManagementError) as refused:
        agent.configure(kind, attributes)
    assert refused.value.status == status
    assert [list(agent.adapters[one].rows(0.0)) for one in (EXCHANGE, BINDING)] == before
    assert "M0a" not in world.routers["A"].core.addresses


def begin_long(world: World, sender: PartyLink, subject: str) -> bytes:
    """Send the first frame of a message; returns the rest."""
    data = encode_message(Message(subject=subject, body="x" * 3000))
    send_first(sender.link, True, True, data, 0, 0, b"", 0, 1000, 0)
    world.party.wake()
    world.network.run(0.1)
    return data[1000:]


def end_long(world: World, sender: PartyLink, rest: bytes) -> None:
    link = sender.link
    link.connection.put(encode_frame(link.session.channel, Transfer(link.handle), rest))
    link.session.next_outgoing_id += 1
    link.session.remote_window -= 1
    link.busy = False
    link.connection.mark_dirty()
    world.party.wake()
    world.network.run(0.3)


def test_an_exchange_takes_a_message_of_several_frames() -> None:
    world = World()
    europe, sender = world.receiver("A", "office/europe"), world.sender("A")
    end_long(world, sender, begin_long(world, sender, "eu"))
    assert [len(decode_message(got.data).body) for got in europe.got] == [3000]


def test_an_exchange_deleted_in_the_middle_of_a_message_drops_it() -> None:
    world = World()
    europe, sender = world.receiver("A", "office/europe"), world.sender("A")
    rest = begin_long(world, sender, "eu")
    agent = world.routers["A"].router.agent
    agent.adapters[EXCHANGE].delete(row(world.routers["A"], EXCHANGE, name="news")["identity"])
    end_long(world, sender, rest)
    assert not europe.got
    assert world.routers["A"].core.counters.dropped_presettled == 1


def test_an_exchange_created_in_the_middle_of_a_message_takes_the_next_one() -> None:
    world = World()
    late, other = world.receiver("A", "late", credit=1), world.receiver("A", "other")
    sender = world.sender("A", "late")
    rest = begin_long(world, sender, "eu")
    agent = world.routers["A"].router.agent
    agent.configure(EXCHANGE, {"name": "late", "address": "late"})
    agent.configure(BINDING, {"exchangeName": "late", "nextHopAddress": "other"})
    end_long(world, sender, rest)
    assert (len(late.got), len(other.got)) == (1, 0)
    world.send(sender, "eu")
    assert len(other.got) == 1


def test_a_slow_next_hop_bounds_what_waits() -> None:
    world = World("AB", at="B", more="address {\nprefix: office\ndistribution: multicast\n}\n")
    slow = world.receiver("B", "office/europe", credit=0)
    budget = world.routers["B"].core.budget
    budget.set_limits(1 << 20, 1 << 20, 1 << 20)
    sender = world.sender("A")
    body = encode_message(Message(subject="eu", body="x" * 10_000))
    for _ in range(200):
        world.party.send(sender, body)
        world.network.until(sender.link.ready, 2.0)
    world.network.run(0.5)
    assert not slow.got
    assert 1 << 18 < budget.kept < 1 << 20
    assert RELEASED in [state for _, state in sender.outcomes]
