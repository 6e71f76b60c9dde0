"""Memory of messages that wait: the client with the most is disconnected, and gone clients leave nothing behind."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import Container
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.kit.steps import steps
from waymesh_amqp.outcomes import RELEASED
from waymesh_amqp.performatives import Close, Disposition, Transfer
from waymesh_router.core.forwarding.buffer_budget import BRANCH_BYTES, RECORD_BYTES
from waymesh_router.memory import relief
from waymesh_router.memory.relief import AGAIN_S, MemoryRelief

KIB = b"x" * 1024
LARGE = 1 << 40
TOLERANCE = 16 << 20
SIZE = len(frames.message(KIB)) + RECORD_BYTES
"""What a waiting message counts in the budgets."""
COPIES = SIZE + 2 * BRANCH_BYTES
"""What one counts that waits for two consumers."""


class Scene:
    """A router in which all messages wait, and its log."""

    def __init__(self, router: int = LARGE, connection: int = LARGE) -> None:
        self.hub: Hub = core_hub()
        self.core = core_of(self.hub)
        self.core.budget.set_limits(router, connection, LARGE)
        self.log: list[str] = []
        self.relief = MemoryRelief(self.core, lambda module, level, text, event=None: self.log.append(text))

    def consumer(self, address: str = "q") -> Peer:
        """One without credit."""
        peer = self.hub.peer().open().begin()
        peer.send(frames.attach_receiver(address=address))
        return peer

    def multicast(self, prefix: str) -> None:
        phases = {"waypoint": False, "ingressPhase": None, "egressPhase": None}
        self.core.address_table.add_pattern(
            {"pattern": None, "prefix": prefix, "distribution": "multicast", **phases}
        )

    def producer(self, count: int, address: str = "q", **over: Any) -> Peer:
        """One whose messages of 1 KiB wait."""
        peer = self.hub.peer().open().begin()
        peer.send(frames.attach_sender(address=address))
        peer.send(*[frames.transfer(number, frames.message(KIB), **over) for number in range(count)])
        return peer


def end_of(peer: Peer) -> tuple[list[Any], str]:
    """The outcomes that a peer was told of, and the condition with which its connection was closed."""
    states: list[Any] = []
    condition = ""
    for found in peer.take():
        if isinstance(found, Disposition):
            states += [found.state] * ((found.first if found.last is None else found.last) - found.first + 1)
        if isinstance(found, Close) and found.error is not None:
            condition = found.error.condition
    return states, condition


def transfers(peer: Peer) -> list[Transfer]:
    return [f.performative for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]


def bodies(peer: Peer, credit: int) -> int:
    peer.end.feed(frames.credit(credit))
    return len(transfers(peer))


@pytest.mark.parametrize("router", [10_000, LARGE])
def test_an_excess_is_twice_the_limit_of_the_router_and_a_tolerance(router: int) -> None:
    scene = Scene(router)
    budget = scene.core.budget
    assert budget.most == 2 * router + TOLERANCE
    budget.most = 10 * SIZE
    scene.consumer()
    scene.producer(10)
    assert not budget.excess
    scene.producer(1)
    assert budget.excess == (budget.kept > budget.per_router)


def test_the_client_with_the_most_bytes_is_disconnected_and_its_messages_are_released() -> None:
    scene = Scene(4 * SIZE)
    budget = scene.core.budget
    budget.most = 12 * SIZE
    consumer = scene.consumer()
    modest, greedy = scene.producer(3), scene.producer(10)
    assert budget.excess
    scene.relief.end_excess(100.0)
    scene.hub.turn()
    assert end_of(greedy) == ([RELEASED] * 10, "amqp:resource-limit-exceeded")
    assert end_of(modest) == ([], "")
    assert (budget.kept, budget.excess) == (3 * SIZE, False)
    assert bodies(consumer, 20) == 3
    (line,) = scene.log
    assert "disconnected" in line


def test_it_looks_for_a_client_only_from_time_to_time() -> None:
    scene = Scene(4 * SIZE)
    scene.core.budget.most = 8 * SIZE
    scene.consumer()
    first, second = scene.producer(9), scene.producer(10)
    scene.relief.end_excess(100.0)
    assert (first.end.conn.done, second.end.conn.done) == (False, True)
    scene.relief.end_excess(100.0 + AGAIN_S / 2)
    left = scene.core.budget.kept
    scene.relief.end_excess(100.0 + 2 * AGAIN_S)
    assert (left, scene.core.budget.kept) == (9 * SIZE, 0)


def test_many_links_are_searched_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relief, "SEARCHED_A_STEP", 2)
    scene = Scene(4 * SIZE)
    scene.core.budget.most = 12 * SIZE
    consumers = [scene.consumer(f"q{number % 7 or ''}") for number in range(40)]
    modest, greedy = scene.producer(3), scene.producer(10)
    most = 0
    scene.relief.end_excess(100.0)
    scene.relief.end_excess(100.0 + 2 * AGAIN_S)
    greedy.end.feed(frames.transfer(10, frames.message(KIB)))
    for _ in range(100):
        most = max(most, steps(scene.core.context.portions.run))
        if not scene.core.context.portions:
            break
    assert most < 1_000, "42 links take far more"
    assert end_of(greedy) == ([RELEASED] * 11, "amqp:resource-limit-exceeded")
    assert end_of(modest) == ([], "")
    assert scene.core.budget.kept == 3 * SIZE
    assert len(scene.log) == 1
    assert not any(peer.conn.done for peer in consumers)


def test_messages_of_clients_that_are_gone_are_dropped_first() -> None:
    scene = Scene(4 * SIZE)
    scene.core.budget.most = 8 * SIZE
    consumer = scene.consumer()
    for settled in (False, True):
        scene.producer(3, settled=settled).kill()
    there = scene.producer(4)
    assert scene.core.budget.kept == 10 * SIZE
    scene.relief.end_excess(100.0)
    assert (scene.core.budget.kept, there.end.conn.done) == (4 * SIZE, False)
    assert bodies(consumer, 20) == 4
    assert "senders are gone" in scene.log[0]


def test_copies_for_several_consumers_from_clients_that_are_gone_hurt_nobody() -> None:
    scene = Scene(4 * SIZE)
    scene.core.budget.most = 8 * SIZE
    scene.multicast("many")
    several = [scene.consumer("many") for _ in range(2)]
    scene.consumer()
    there = scene.producer(2, "many")
    for settled in (False, True):
        scene.producer(4, "many", settled=settled).kill()
    innocent = scene.producer(1)
    assert scene.core.budget.kept == SIZE + 10 * COPIES
    scene.relief.end_excess(100.0)
    assert scene.core.budget.kept == SIZE + 2 * COPIES
    assert [peer.end.conn.done for peer in (there, innocent)] == [False, False]
    assert [bodies(one, 20) for one in several] == [2, 2]


def test_all_kinds_of_waiting_messages_are_freed() -> None:
    """Complete, incomplete, settled, to several consumers, partly sent, and for a link route."""
    scene = Scene(SIZE)
    scene.core.budget.most = 2 * SIZE
    scene.multicast("many")
    several = [scene.consumer("many") for _ in range(2)]
    scene.core.linkroutes.add({"identity": "1", "direction": "both", "prefix": "b2", "connection": "broker"})
    container = Container(scene.hub, credit=10)
    scene.consumer()
    begun = scene.consumer("begun")
    begun.send(frames.credit(1))
    peer = scene.producer(2)
    peer.send(frames.transfer(2, frames.message(KIB), settled=True), frames.transfer(3, frames.message(KIB), more=True))
    peer.send(frames.attach_sender("begun", 1, address="begun"), frames.attach_sender("routed", 2, address="b2.q"))
    peer.send(frames.attach_sender("many", 3, address="many"))
    peer.send(frames.transfer(4, frames.message(KIB), handle=1, more=True))
    peer.send(frames.transfer(5, frames.message(KIB), handle=2, more=True))
    for number, more in ((6, False), (7, True)):
        peer.send(frames.transfer(number, frames.message(KIB), handle=3, more=more))
    kept_by_another = scene.producer(1, "many")
    assert scene.core.budget.kept >= 6 * SIZE
    scene.relief.end_excess(100.0)
    scene.hub.turn()
    assert scene.core.budget.kept == COPIES
    assert [bodies(one, 5) for one in several] == [1, 1]
    assert not kept_by_another.end.conn.done
    assert scene.core.budget.kept == 0
    assert end_of(peer)[1] == "amqp:resource-limit-exceeded"
    assert transfers(begun)[-1].aborted
    assert container.links
    peer.kill()
    assert scene.core.budget.kept == 0
    assert not scene.core.addresses["M0q"].pending


@pytest.mark.parametrize("full", [False, True])
def test_while_memory_is_full_a_client_beyond_its_budget_is_disconnected(full: bool) -> None:
    scene = Scene(connection=4 * SIZE)
    scene.consumer()
    within, beyond = scene.producer(3), scene.producer(5)
    for _ in range(2):
        scene.relief.when_short(full, LARGE)
    assert [peer.end.conn.done for peer in (within, beyond)] == [False, full]


@pytest.mark.parametrize("full", [False, True])
def test_while_memory_is_short_clients_beyond_the_budget_of_the_router_are_disconnected(full: bool) -> None:
    scene = Scene(8 * SIZE)
    scene.consumer()
    peers = [scene.producer(count) for count in (2, 4, 6)]
    for _ in range(2):
        scene.relief.when_short(full, LARGE)
    assert [peer.end.conn.done for peer in peers] == [False, False, True]


def test_while_memory_is_short_clients_within_their_budgets_stay() -> None:
    scene = Scene(4 * SIZE, 4 * SIZE)
    scene.consumer()
    peers = [scene.producer(2), scene.producer(2)]
    scene.relief.when_short(True, LARGE)
    assert [peer.end.conn.done for peer in peers] == [False, False]
    assert scene.log == []


def test_bytes_from_routers_do_not_count_for_clients() -> None:
    scene = Scene(4 * SIZE)
    scene.core.budget.most = 4 * SIZE
    scene.consumer()
    other, client = scene.producer(6), scene.producer(1)
    other.end.conn.role = "inter-router"  # type: ignore[attr-defined]
    scene.relief.end_excess(100.0)
    scene.relief.when_short(True, LARGE)
    assert [peer.end.conn.done for peer in (other, client)] == [False, False]


def test_while_memory_is_short_few_messages_of_senders_that_are_gone_stay() -> None:
    scene = Scene()
    consumer = scene.consumer()
    scene.producer(3).kill()
    scene.relief.when_short(True, 10 * 3 * SIZE)
    assert (scene.core.budget.kept, scene.log) == (3 * SIZE, [])
    assert bodies(consumer, 20) == 3


@pytest.mark.parametrize("section", [1, 2, 3, 1_024])
def test_while_memory_is_short_the_oldest_messages_beyond_a_tenth_of_it_are_dropped(
    monkeypatch: pytest.MonkeyPatch, section: int
) -> None:
    """Whatever their address, and copies for several consumers."""
    monkeypatch.setattr(relief, "SECTION", section)
    scene = Scene()
    scene.multicast("many")
    readers = [scene.consumer(address) for address in ("q", "many", "many", "r")]
    there = scene.producer(1)
    for address in ("q", "many", "r"):
        scene.producer(2, address, settled=True).kill()
    scene.relief.when_short(True, 10 * (2 * SIZE + COPIES))
    assert [bodies(reader, 20) for reader in readers] == [1, 1, 1, 2]
    assert not there.end.conn.done
    assert f"{2 * SIZE + COPIES} bytes" in scene.log[0]


def test_messages_of_senders_that_are_gone_are_measured_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand, of which none is dropped: they take exactly a tenth."""
    monkeypatch.setattr(relief, "DROPS_A_STEP", 10)
    scene = Scene()
    readers = [scene.consumer(address) for address in ("q", "r", "q", "r")]
    for address in ("q", "r", "q", "r"):
        scene.producer(250, address, settled=True).kill()
    there = scene.producer(1)
    portions = scene.core.context.portions
    most, turns = steps(partial(scene.relief.when_short, False, 10 * 1_000 * SIZE)), 0
    scene.relief.when_short(False, 10 * SIZE)  # of the next tick: it has no effect meanwhile
    while portions:
        most, turns = max(most, steps(portions.run)), turns + 1
    assert most < 500, "each message takes several"
    assert 40 < turns < 70
    assert (scene.core.budget.kept, scene.log) == (1_001 * SIZE, [])
    scene.relief.when_short(False, 10 * 999 * SIZE)
    while portions:
        portions.run()
    assert scene.core.budget.kept == 1_000 * SIZE
    assert not there.end.conn.done
    assert not any(peer.end.conn.done for peer in readers)


def test_an_excess_does_not_wait_until_all_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relief, "DROPS_A_STEP", 10)
    scene = Scene()
    scene.consumer()
    scene.producer(200, settled=True).kill()
    there = scene.producer(2)
    scene.relief.when_short(False, 10 * 200 * SIZE)
    portions = scene.core.context.portions
    assert portions, "under way"
    scene.core.budget.most = 100 * SIZE
    scene.relief.end_excess(100.0)
    scene.relief.when_short(False, 10 * 200 * SIZE)
    while portions:
        portions.run()
    assert scene.core.budget.kept == 2 * SIZE
    assert not there.end.conn.done
    scene.relief.when_short(True, SIZE)  # it measures again
    while portions:
        portions.run()
    assert scene.core.budget.kept == 2 * SIZE


def test_nothing_is_searched_while_few_bytes_wait() -> None:
    """Four times a second while memory is short: with 100,000 links that would take a turn of milliseconds."""
    few, many = Scene(), Scene()
    for scene, addresses in ((few, 10), (many, 1_000)):
        consumer = scene.consumer()
        for number in range(1, addresses):
            consumer.send(frames.attach_receiver(f"r{number}", number, address=f"q{number}"))
        scene.producer(1).kill()
    assert steps(partial(few.relief.when_short, True, 10 * SIZE)) == steps(
        partial(many.relief.when_short, True, 10 * SIZE)
    )
