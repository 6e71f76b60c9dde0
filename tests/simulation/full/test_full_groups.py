"""Message groups: over the whole mesh, a group is at one consumer until this leaves, and in the order of its sender."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

import pytest

from tests.simulation.full.clients import Sender, SenderPlan
from tests.simulation.full.ledger import ACCEPTED, Ledger, Receipt, Sent
from tests.simulation.full.slow_portions import slow_portions
from tests.simulation.full.test_full_priorities import LINE, PAIR, TRIANGLE, received
from tests.simulation.full.workers import Shop
from waymesh_router.core.forwarding import groups
from waymesh_router.core.forwarding.groups import ALL, SLOTS
from waymesh_router.core.settlement import interruptions

CONFIGURED = "\naddress {\n prefix: work\n messageGroups: yes\n}\n"
GROUPS = 40
SETTLED_S = 1.0
"""By then, all routers know the slots of each other."""


class GroupShop(Shop):
    """Workers of an address with message groups, some of which leave."""

    def __init__(self, names: str, cables: dict[tuple[str, str], float], **more: Any) -> None:
        Shop.__init__(self, names, cables, CONFIGURED, **more)
        self.left: dict[str, float] = {}
        self.changes: list[float] = []

    def join(self, router: str, delay: float = 0.001, prefetch: int = 10) -> None:
        """A worker attaches."""
        self.changes.append(self.network.now)
        self.worker(router, delay, prefetch)

    def leave(self, number: int, kill: bool = False) -> None:
        """A worker goes."""
        worker = self.workers.pop(number)()
        self.changes.append(self.network.now)
        self.left[worker.label] = self.network.now
        worker.client.kill() if kill else worker.client.close()

    def feed(self, router: str, count: int, pace: float = 0.002, settled: float = 0.0) -> Sender:
        """A client begins to send messages of GROUPS groups."""
        client = self.crowd.client((self.network.routers | self.network.edges)[router])
        place = client.sender("work", SenderPlan(count, settled=settled, pace=pace, groups=GROUPS))
        self.network.run(0.01)
        sender: Sender = place()
        return sender

    def finish(self, *senders: Sender) -> None:
        """All has been sent, and has an outcome."""
        self.network.until(lambda: not any(one.left or one.under_way for one in senders), 120.0)

    def slots(self) -> dict[str, int]:
        """The slots of each router with consumers."""
        found = {name: router.core.addresses.get("M0work") for name, router in self.network.routers.items()}
        return {n: a.groups.slots for n, a in found.items() if a is not None and a.groups is not None and a.consumers}

    def check(self) -> None:
        """No group was split, none is out of order, and each message has its outcome."""
        assert not self.ledger.violations()
        assert not split(self.ledger, self.left)
        assert not disordered(self.ledger, self.changes)


def receipts(ledger: Ledger) -> list[tuple[Sent, Receipt]]:
    """All, in order of time; of the same moment, in the order in which they were sent."""
    found = [(sent, receipt) for sent in ledger.sent for receipt in sent.receipts]
    return sorted(found, key=lambda one: one[1].at)


def split(ledger: Ledger, left: Mapping[str, float]) -> list[str]:
    """Groups of which a consumer got a message although the one before it had not left. `left`: when consumers did."""
    holders: dict[str, str] = {}
    found = []
    for sent, receipt in receipts(ledger):
        before = holders.setdefault(sent.group, receipt.consumer)
        if sent.group and before != receipt.consumer:
            holders[sent.group] = receipt.consumer
            if left.get(before, 1e9) > receipt.at or (receipt.consumer in left and left[receipt.consumer] < receipt.at):
                found.append(f"{sent.group}: {before}, then {receipt.consumer} at {receipt.at}")
    return found


def disordered(ledger: Ledger, changes: list[float]) -> list[str]:
    """Messages of a group and sender that a consumer got after later ones, but for those that were on their way when a
    consumer came or left, `changes`: within SETTLED_S, what came to another router may be sent on."""
    last: dict[tuple[object, str, str], float] = {}
    found = []
    for sent in reversed(ledger.sent):
        for receipt in sent.receipts:
            key = (sent.sender, sent.group, receipt.consumer)
            later = last.setdefault(key, receipt.at)
            last[key] = min(later, receipt.at)
            excused = any(sent.at - SETTLED_S <= change <= receipt.at for change in changes)
            if sent.group and later < receipt.at and not excused:
                found.append(f"{sent.number} of {sent.group} at {receipt}")
    return found


@pytest.mark.parametrize("cables", [LINE, TRIANGLE], ids=["line", "triangle"])
def test_two_senders_and_consumers_everywhere(cables: dict[tuple[str, str], float]) -> None:
    shop = GroupShop("ABC", cables)
    for router in "BCAC":
        shop.join(router)
    shop.network.run(2.0)
    slots = shop.slots()
    assert sorted(one.bit_count() for one in slots.values()) == [SLOTS // 4, SLOTS // 4, SLOTS // 2]
    assert slots["A"] | slots["B"] | slots["C"] == ALL
    shop.finish(shop.feed("A", 400), shop.feed("C", 400))
    assert min(received(shop)) > 80
    assert {code for one in shop.ledger.sent for code in one.outcomes} == {ACCEPTED}
    shop.check()


def test_new_consumers_take_no_group_and_get_new_ones() -> None:
    shop = GroupShop("ABC", TRIANGLE)
    shop.join("A")
    first = shop.feed("B", 600, 0.005)
    shop.network.run(1.0)
    for router in "BCAB":
        shop.join(router)
    shop.finish(first)
    assert received(shop)[1:] == [0, 0, 0, 0], "all groups were known when they came"
    shop.check()


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("at", "ABC")
def test_groups_go_to_the_others_when_a_consumer_leaves_at_work(at: str, kill: bool) -> None:
    shop = GroupShop("ABC", LINE)
    for router in "ABCB":
        shop.join(router, 0.005)
    shop.network.run(2.0)
    senders = [shop.feed(at, 400), shop.feed("B", 400)]
    for _ in range(3):
        shop.network.run(0.3)
        shop.leave(0, kill)
    shop.finish(*senders)
    released = sum(code != ACCEPTED for one in shop.ledger.sent for code in one.outcomes)
    assert released < 200, "what was at the consumers, and on its way where the path leads back"
    shop.check()


def test_a_consumer_without_credit_stops_its_groups_only() -> None:
    shop = GroupShop("AB", PAIR)
    for _ in range(2):
        shop.join("B", 0.001, 10)
    shop.network.run(1.0)
    stuck = shop.workers[0]()
    stuck.begin_answer = lambda did: None  # it settles nothing, and issues no credit
    sender = shop.feed("A", 200)
    shop.network.run(5.0)
    assert stuck.received == 10
    free = [one for one in shop.ledger.sent if one.receipts and one.receipts[0].consumer != stuck.label]
    assert len(free) > 60
    assert sender.left == 0, "what waits for the stuck one waits at its router"
    shop.leave(0)
    shop.finish(sender)
    assert sum(ACCEPTED in one.outcomes for one in shop.ledger.sent) == 190
    shop.check()


def test_a_killed_router_hands_over() -> None:
    shop = GroupShop("ABC", TRIANGLE)
    for router in "BCA":
        shop.join(router, 0.005)
    shop.network.run(2.0)
    sender = shop.feed("A", 800)
    shop.network.run(0.5)
    shop.left[shop.workers[0]().label] = shop.network.now
    shop.changes.append(shop.network.now)
    shop.network.routers["B"].crash()
    shop.finish(sender)
    assert sum(ACCEPTED in one.outcomes for one in shop.ledger.sent) > 700
    shop.check()


def test_after_a_partition_each_group_has_one_consumer_again() -> None:
    """Each part has had one; of the two, that at the lower router id keeps the group."""
    shop = GroupShop("AB", PAIR)
    for router in "AB":
        shop.join(router)
    shop.network.run(1.0)
    shop.finish(shop.feed("A", 200), shop.feed("B", 200))
    shop.check()
    shop.network.cables[0].cut()
    shop.network.run(20.0)
    assert set(shop.slots().values()) == {ALL}
    shop.finish(shop.feed("A", 200), shop.feed("B", 200))
    shop.network.cables[0].mend()
    shop.network.run(30.0)
    slots = shop.slots()
    assert slots["A"] | slots["B"] == ALL
    assert not slots["A"] & slots["B"]
    count = len(shop.ledger.sent)
    shop.finish(shop.feed("A", 200), shop.feed("B", 200))
    places: dict[str, set[str]] = {}
    for sent in shop.ledger.sent[count:]:
        places.setdefault(sent.group, set()).update(receipt.consumer for receipt in sent.receipts)
    assert all(len(found) == 1 for found in places.values()), places
    assert not shop.ledger.violations()


def test_routers_that_do_not_know_groups_get_none_of_them() -> None:
    shop = GroupShop("ABC", TRIANGLE, without_demand="C")
    shop.join("C")
    shop.join("B")
    shop.network.run(1.0)
    shop.finish(shop.feed("A", 100))
    assert received(shop) == [0, 100]
    shop.check()


def test_an_old_router_on_the_way_only_forwards() -> None:
    shop = GroupShop("ABC", LINE, without_demand="B")
    for router in "AC":
        shop.join(router)
    shop.network.run(1.0)
    shop.finish(shop.feed("A", 100), shop.feed("C", 100))
    shop.check()


def test_an_edge_router_keeps_groups_among_its_consumers() -> None:
    """Those of the mesh, and, of its own clients, all."""
    shop = GroupShop("AB", PAIR, edges={"E": "A"})
    for router in "EEB":
        shop.join(router)
    shop.network.run(1.0)
    shop.finish(shop.feed("B", 300))
    shop.check()
    assert min(received(shop)) > 50
    shop.leave(2)
    shop.network.run(2.0)
    count = sum(received(shop))
    shop.finish(shop.feed("E", 100), shop.feed("A", 100))
    assert sum(received(shop)) == count + 200


def test_an_edge_router_without_consumers_sends_to_the_mesh() -> None:
    shop = GroupShop("AB", PAIR, edges={"E": "A"})
    for router in "AB":
        shop.join(router)
    shop.network.run(1.0)
    shop.finish(shop.feed("E", 200), shop.feed("B", 200))
    assert {code for one in shop.ledger.sent for code in one.outcomes} == {ACCEPTED}
    shop.check()


def test_long_messages_and_pre_settled_ones() -> None:
    shop = GroupShop("ABC", LINE)
    for router in "CAB":
        shop.join(router)
    shop.network.run(1.0)
    client = shop.crowd.client(shop.network.routers["A"])
    place = client.sender("work", SenderPlan(60, settled=0.0, pace=0.01, size=60_000.0, groups=5))
    shop.network.run(0.01)
    shop.finish(place(), shop.feed("C", 200, settled=1.0))
    shop.network.run(2.0)
    assert all(len(one.receipts) == 1 for one in shop.ledger.sent)
    shop.check()


MESHES = {"pair": ("AB", PAIR), "line": ("ABC", LINE), "triangle": ("ABC", TRIANGLE)}


def random_script(seed: int, mesh: str) -> GroupShop:
    """Workers come and go while clients send; more workers come than go."""
    rng = random.Random(seed)
    names, cables = MESHES[mesh]
    shop = GroupShop(names, cables)
    shop.join(rng.choice(names))
    shop.network.run(1.0)
    senders = []
    for _ in range(12):
        step = rng.random()
        if step < 0.4:
            shop.join(rng.choice(names), rng.choice((0.0005, 0.005)), rng.choice((1, 10, 100)))
        elif step < 0.65 and len(shop.workers) > 1:
            shop.leave(rng.randrange(len(shop.workers)), rng.random() < 0.5)
        else:
            senders.append(shop.feed(rng.choice(names), rng.randrange(20, 120), rng.choice((1e-6, 0.002, 0.01))))
        shop.network.run(rng.choice((0.0, 0.01, 0.1, 0.6, 1.5)))
    shop.finish(*senders)
    return shop


@pytest.mark.parametrize("mesh", list(MESHES))
def test_random_scripts(mesh: str) -> None:
    """More of them, after changes: `random_script(seed, mesh).check()` for some hundreds of seeds."""
    for seed in itertools.islice(itertools.count(), 4):
        random_script(seed, mesh).check()


@pytest.mark.parametrize("mesh", list(MESHES))
def test_groups_that_move_slowly_stay_in_order(mesh: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a consumer that leaves moves to others one delivery after the other, milliseconds apart."""
    monkeypatch.setattr(groups, "AT_ONCE", 0)
    monkeypatch.setattr(interruptions, "MOVED_A_STEP", 1)
    slow_portions(monkeypatch, 0.002)
    moved: list[int] = []
    leave = groups.Groups.leave

    def note(own: groups.Groups, address: Any, out: Any) -> None:
        leave(own, address, out)
        if out in own.lost:
            moved.append(out.undelivered())

    monkeypatch.setattr(groups.Groups, "leave", note)
    names, cables = MESHES[mesh]
    shop = GroupShop(names, cables)
    for router in "BABB":
        shop.join(router, 0.02, 1)
    shop.network.run(2.0)
    senders = [shop.feed(names[-1], 150, 0.002), shop.feed("A", 150, 0.002)]
    for number in (2, 0, 1):
        shop.network.run(0.3)
        shop.leave(number)
    shop.join("A", 0.001, 100)
    shop.finish(*senders)
    assert len(moved) > 1
    assert max(moved) > 5
    shop.check()
