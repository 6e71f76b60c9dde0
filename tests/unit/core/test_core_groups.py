"""The slots of message groups: each belongs to one router, and a consumer that is there keeps its own."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from waymesh_router.core.forwarding.groups import ALL, LOOKS, SLOTS, Groups, Route, Told, numbers, route, slot_of


class Consumer:
    """A receiver at a router."""

    def __init__(self, router: str, credit: int) -> None:
        self.router = router
        self.credit = credit
        self.over = False


class Mesh:
    """Routers that hear of each other what `tell` says, when a test lets them."""

    def __init__(self, names: str) -> None:
        self.addresses: dict[str, Any] = {}
        for name in names:
            self.addresses[name] = SimpleNamespace(consumers=[], targets={}, groups=Groups(name))

    def join(self, name: str, credit: int = 10) -> Consumer:
        """A consumer attaches; the others learn that the router has some."""
        out = Consumer(name, credit)
        address = self.addresses[name]
        address.consumers.append(out)
        if len(address.consumers) == 1:
            for other, there in self.addresses.items():
                if other != name:
                    there.targets[name] = SimpleNamespace(
                        node=SimpleNamespace(id=name), groups=None, stale=lambda: False
                    )
        return out

    def leave(self, out: Consumer) -> None:
        """A consumer detaches; the others learn that the router has none any more."""
        address = self.addresses[out.router]
        address.consumers.remove(out)
        address.groups.leave(address, out)
        if not address.consumers:
            for there in self.addresses.values():
                there.targets.pop(out.router, None)

    def agree(self, name: str) -> None:
        address = self.addresses[name]
        address.groups.incomplete = any(target.groups is None for target in address.targets.values())
        address.groups.agree(address, True)

    def tell(self, name: str, others: str = "") -> None:
        """A router tells what it has."""
        address = self.addresses[name]
        own: Groups = address.groups
        for other in others or self.addresses:
            target = self.addresses[other].targets.get(name)
            if target is not None and address.consumers:
                target.groups = Told(len(address.consumers), own.slots, dict(own.gives))

    def settle(self, order: list[str] | None = None) -> None:
        """All tell each other until nothing changes any more."""
        same = 0
        for _ in range(20):
            before = [(a.groups.slots, dict(a.groups.gives)) for a in self.addresses.values()]
            for name in order or sorted(self.addresses):
                self.agree(name)
                self.tell(name)
            same = same + 1 if before == [(a.groups.slots, a.groups.gives) for a in self.addresses.values()] else 0
            if same == 2:
                return
        raise AssertionError("they do not agree")

    def sizes(self) -> list[int]:
        """Slots of each router."""
        return [a.groups.slots.bit_count() for a in self.addresses.values()]

    def check(self) -> None:
        """Each slot belongs to one router, if any has consumers, and all send it there."""
        slots = 0
        for address in self.addresses.values():
            assert not slots & address.groups.slots, "two routers have a slot"
            slots |= address.groups.slots
        assert slots == (ALL if any(a.consumers for a in self.addresses.values()) else 0)

    def where(self, slot: int, at: str) -> Any:
        """The consumer of a slot, as a message from router `at` finds it."""
        found = route(self.addresses[at], slot)
        name = at if found is Route.HERE else found.node.id  # type: ignore[union-attr]
        address = self.addresses[name]
        assert route(address, slot) is Route.HERE
        return address.groups.consumer(address, slot)


def test_the_first_router_has_all_and_shares_what_nobody_has() -> None:
    mesh = Mesh("ABC")
    mesh.join("B")
    mesh.settle()
    assert mesh.sizes() == [0, SLOTS, 0]
    mesh.join("A")
    mesh.settle()
    assert mesh.sizes() == [512, 512, 0]
    mesh.join("C")
    mesh.join("C")
    mesh.settle()
    assert mesh.sizes() == [256, 256, 512]
    mesh.check()


def test_a_group_stays_with_its_consumer_when_others_come() -> None:
    mesh = Mesh("ABC")
    first = mesh.join("C")
    mesh.settle()
    for slot in range(1, SLOTS // 2 + 1):
        assert mesh.where(slot, "B") is first
    for name in "ABCA":
        mesh.join(name)
        mesh.settle()
    for slot in range(1, SLOTS // 2 + 1):
        assert mesh.where(slot, "A") is first
    assert mesh.sizes()[2] == 512
    mesh.check()


def test_its_groups_go_to_the_others_when_a_consumer_leaves() -> None:
    mesh = Mesh("AB")
    outs = [mesh.join(name) for name in "AAB"]
    mesh.settle()
    slots = {slot: mesh.where(slot, "B") for slot in range(1, SLOTS + 1)}
    assert {outs.index(out) for out in slots.values()} == {0, 1, 2}
    mesh.leave(outs[0])
    mesh.settle()
    for slot, out in slots.items():
        found = mesh.where(slot, "A")
        assert found is out if out is not outs[0] else found in outs[1:]
    mesh.check()
    mesh.leave(outs[1])
    mesh.settle()
    assert mesh.sizes() == [0, SLOTS]
    mesh.leave(outs[2])
    mesh.settle()
    assert route(mesh.addresses["A"], 1) is Route.NOWHERE


def test_one_router_divides_its_groups_among_its_consumers_that_have_credit() -> None:
    mesh = Mesh("A")
    outs = [mesh.join("A") for _ in range(4)]
    outs[3].credit = 0
    mesh.settle()
    found = [mesh.where(slot, "A") for slot in range(1, 31)]
    assert [found.count(out) for out in outs] == [10, 10, 10, 0]


def test_few_consumers_are_looked_at_for_a_slot() -> None:
    mesh = Mesh("A")
    outs = [mesh.join("A") for _ in range(10 * LOOKS)]
    mesh.settle()
    assert len({id(mesh.where(slot, "A")) for slot in range(1, 101)}) == 100
    assert len(mesh.addresses["A"].groups.held) == 100
    for out in outs:
        mesh.leave(out)
    own = mesh.addresses["A"].groups
    assert (own.slots, own.taken, own.held, own.takers) == (0, 0, {}, {})


def test_who_has_just_been_given_something_gets_it_before_it_says_so() -> None:
    """The giver sends it on; others send to the giver until they hear of it."""
    mesh = Mesh("ABC")
    mesh.join("A")
    mesh.settle()
    mesh.join("B")
    mesh.agree("B")
    mesh.tell("B")
    mesh.agree("A")
    mesh.tell("A", "C")
    given = numbers(mesh.addresses["A"].groups.gives["B"])[0]
    assert route(mesh.addresses["A"], given).node.id == "B"  # type: ignore[union-attr]
    mesh.agree("C")
    assert route(mesh.addresses["C"], given).node.id == "A"  # type: ignore[union-attr]
    mesh.tell("A")
    assert route(mesh.addresses["B"], given) is Route.LATER
    mesh.agree("B")
    assert route(mesh.addresses["B"], given) is Route.HERE
    mesh.settle()
    mesh.check()


def test_what_was_given_to_a_router_that_has_gone_comes_back() -> None:
    mesh = Mesh("AB")
    mesh.join("A")
    mesh.settle()
    out = mesh.join("B")
    mesh.agree("B")
    mesh.tell("B")
    mesh.agree("A")
    assert mesh.sizes() == [512, 0]
    mesh.leave(out)
    mesh.settle()
    assert mesh.sizes() == [SLOTS, 0]


def test_after_a_partition_the_lower_id_keeps_what_both_have() -> None:
    mesh = Mesh("AB")
    targets = {name: address.targets for name, address in mesh.addresses.items()}
    outs = [mesh.join(name) for name in "AB"]
    apart: dict[str, Any] = {name: dict(there) for name, there in targets.items()}
    for there in targets.values():
        there.clear()
    mesh.settle()
    assert mesh.sizes() == [SLOTS, SLOTS]
    for slot in range(1, 101):
        assert mesh.where(slot, "B") is outs[1]
        assert mesh.where(slot, "A") is outs[0]
    for name, there in targets.items():
        there.update(apart[name])
    mesh.settle(["B", "A"])
    mesh.check()
    assert mesh.sizes() == [512, 512]
    assert all(mesh.where(slot, "B") is outs[0] for slot in range(1, 101))


def test_routers_that_do_not_know_groups_get_them_only_if_nobody_else_has_consumers() -> None:
    mesh = Mesh("ABCD")
    old = [mesh.join(name) for name in "CB"]
    own = mesh.addresses["A"].groups
    own.incomplete = True
    own.agree(mesh.addresses["A"], True)
    assert route(mesh.addresses["A"], 5) is Route.LATER, "they may tell yet"
    own.incomplete = False
    own.agree(mesh.addresses["A"], True)
    assert route(mesh.addresses["A"], 5).node.id == "B"  # type: ignore[union-attr]
    mesh.leave(old[1])
    own.agree(mesh.addresses["A"], True)
    assert route(mesh.addresses["A"], 5).node.id == "C"  # type: ignore[union-attr]
    mesh.join("D")
    for name in "DA":
        mesh.addresses[name].groups.agree(mesh.addresses[name], True)
        mesh.tell("D")
    assert route(mesh.addresses["A"], 5).node.id == "D"  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(6))
def test_random_joins_and_departures(seed: int) -> None:
    """Messages between routers come late, but in order. What is used never leaves a consumer that is there."""
    rng = random.Random(seed)
    mesh = Mesh("ABCDE")
    outs: list[Consumer] = []
    known: dict[int, Consumer] = {}
    for _ in range(40):
        if outs and rng.random() < 0.4:
            out = outs.pop(rng.randrange(len(outs)))
            mesh.leave(out)
            known = {slot: one for slot, one in known.items() if one is not out}
            mesh.settle()
        else:
            outs.append(mesh.join(rng.choice("ABCDE")))
            names = list("ABCDE")
            rng.shuffle(names)
            mesh.settle(names)
        mesh.check()
        for slot in rng.sample(sorted(known), min(len(known), 20)):
            assert mesh.where(slot, rng.choice("ABCDE")) is known[slot]
        if outs:
            for slot in rng.sample(range(1, SLOTS + 1), 20):
                found = mesh.where(slot, rng.choice("ABCDE"))
                assert known.setdefault(slot, found) is found


def test_slots_of_groups() -> None:
    slots = {slot_of(b"group %d" % number) for number in range(20000)}
    assert slots == set(range(1, SLOTS + 1))
    assert slot_of(b"") == 1
    assert ALL.bit_count() == SLOTS
    assert numbers(0b1010) == [3, 1]
