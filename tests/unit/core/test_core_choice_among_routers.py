"""The router that gets a delivery is the one that a comparison of all routers finds, whatever has changed before."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.demand import KEY, record, tell_room
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.kit.steps import lines
from tests.unit.core.test_core_choice import far, from_mesh, producer, send
from waymesh_amqp.performatives import Transfer
from waymesh_amqp.types import Byte, Symbol
from waymesh_router.core.link_kinds import BALANCED, MULTICAST

STEPS = 300
MUCH = 1_000_000
DATA_LINK = 2
"""The handle of the data link on which a neighbour receives; it sends on the next one."""
NEIGHBOURS, FAR, INGRESSES = "BCDEF", [f"far{number}" for number in range(10)], ["in0", "in1", "in2"]
SLACK = 40
"""Lines by which two measurements may differ."""


class Mesh:
    """A core with five neighbours and ten routers behind them, of which many have consumers of `q`. `ranked`: they tell
    priorities; `here`: there is a local consumer; `clients`: messages come from a client, too."""

    def __init__(
        self, rng: random.Random, treatment: int, *, ranked: bool = False, here: bool = False, clients: bool = True
    ) -> None:
        self.rng, self.treatment, self.ranked = rng, treatment, ranked
        self.hub: Hub = core_hub()
        record(self.hub)
        self.core = core_of(self.hub)
        self.peers = {name: neighbour(self.hub, name) for name in NEIGHBOURS}
        self.unsettled: dict[str, list[int]] = {name: [] for name in NEIGHBOURS}
        self.received = dict.fromkeys(NEIGHBOURS, 0)
        self.sent: Counter[str] = Counter()
        self.closed: set[str] = set()
        for name in NEIGHBOURS:
            self.give_credit(name, MUCH)
        for name in FAR:
            self.core.remote_routers.node_up(name)
        for name in (*NEIGHBOURS, *FAR):
            self.core.nodes[name].demand = True
            self.core.remote_routers.add_consumers(name, KEY, treatment)
            self.new_path(name)
        self.address: Any = self.core.addresses[KEY]
        if here:
            consumer = self.hub.peer().open().begin(incoming_window=MUCH)
            priority = {Symbol("priority"): Byte(2)} if ranked else {}
            consumer.send(frames.attach_receiver(properties=priority), frames.credit(MUCH, incoming_window=MUCH))
        self.source = producer(self.hub) if clients else self.peers["B"]

    def give_credit(self, name: str, amount: int) -> None:
        flow = frames.credit(amount, DATA_LINK, self.received[name], incoming_window=MUCH)
        self.peers[name].end.feed(flow)
        self.hub.turn()
        (self.closed.discard if amount else self.closed.add)(name)

    def new_path(self, name: str) -> None:
        """Another cost, and for a router that is no neighbour another next hop and other origins."""
        node = self.core.nodes[name]
        node.cost = self.rng.randint(1, 4)
        if name in FAR:
            node.next_hop = self.core.nodes[self.rng.choice(NEIGHBOURS)]
        node.valid_origins = frozenset(entry for entry in INGRESSES if self.rng.random() < 0.6)
        self.core.remote_routers.update_paths()

    def change(self) -> None:
        """Anything that a choice depends on."""
        rng, routers = self.rng, self.core.remote_routers
        name = rng.choice((*NEIGHBOURS, *FAR))
        action = rng.randrange(7)
        if action == 0:
            self.new_path(name)
        elif action == 1:
            routers.remove_consumers(name, KEY)
        elif action == 2:
            routers.add_consumers(name, KEY, self.treatment)
        elif action == 3:
            routers.flush_consumers(name)
            if rng.random() < 0.5:
                routers.add_consumers(name, KEY, self.treatment)
        elif action == 4 and self.treatment == BALANCED:
            name = rng.choice(NEIGHBOURS)
            self.give_credit(name, 0 if name not in self.closed and len(self.closed) < 3 else MUCH)
        elif action == 5 and self.ranked:
            tell_room(self.hub, name, [rng.randint(3, 4), rng.randint(0, 3), 2, rng.randint(0, 2), 1, 3])
        else:
            self.settle()
        self.core.now += rng.choice((0.0, 0.001, 0.02))

    def settle(self) -> None:
        """A neighbour settles a part of what it has."""
        name = self.rng.choice(NEIGHBOURS)
        for _ in range(self.rng.randint(1, 4)):
            if self.unsettled[name]:
                number = self.unsettled[name].pop(self.rng.randrange(len(self.unsettled[name])))
                self.peers[name].end.feed(frames.disposition(number))
        self.hub.turn()

    def message(self, settled: bool) -> list[str]:
        """A message of a client, or of another router by the neighbour B; the neighbours that got it."""
        way = self.expected_after(settled)
        self.way.end.feed(self.frame)
        got = self.take()
        assert got == way, (self.ingress, self.trace, settled)
        return got

    def expected_after(self, settled: bool) -> list[str]:
        """Makes the frame of the next message; the neighbours that must get it."""
        self.trace: list[str] = []
        self.ingress = "R"
        self.way: Peer = self.source
        handle, payload = 0, None
        if self.source is self.peers["B"] or self.rng.random() < 0.5:
            self.way, handle = self.peers["B"], DATA_LINK + 1
            self.ingress = self.rng.choice(INGRESSES)
            self.trace = [self.ingress, "B", *(["C"] if self.rng.random() < 0.2 else [])]
            payload = from_mesh("q", f"0/{self.ingress}", [f"0/{name}" for name in self.trace])
        key = "mesh" if self.trace else "client"
        self.frame = frames.transfer(self.sent[key], payload, handle=handle, settled=settled)
        self.sent[key] += 1
        if self.treatment == MULTICAST:
            return self.all_neighbours()
        found = self.by_rank() if self.ranked else self.by_load() if settled else self.soonest()
        return [] if found is None else [found]

    def neighbour_for(self, target: Any) -> str | None:
        """The neighbour toward a router, if that is a valid path for the message."""
        node = target.neighbour()
        if node is None or (self.trace and (node.id in self.trace or self.ingress not in target.node.valid_origins)):
            return None
        return str(node.id)

    def ready(self, name: str | None) -> bool:
        return name is not None and name not in self.closed

    def all_neighbours(self) -> list[str]:
        found = {self.neighbour_for(target) for target in self.address.targets.values()}
        return sorted(name for name in found if name is not None and not (self.trace and name == "B"))

    def by_load(self) -> str | None:
        """The way by the number of outstanding deliveries; None: here, or nowhere."""
        found, least = None, float(MUCH)
        if self.address.consumers:
            least = self.address.consumers[0].unsettled
        for target in self.address.targets.values():
            way, load = self.neighbour_for(target), target.outstanding + target.node.cost
            if load < least and self.ready(way):
                found, least = way, load
        return found

    def by_rank(self) -> str | None:
        """The same by priorities, for a pre-settled delivery."""
        found, best = None, (-MUCH, -MUCH)
        if self.address.consumers:
            best = (2, -self.address.consumers[0].unsettled)
        for target in self.address.targets.values():
            way, load = self.neighbour_for(target), target.outstanding + target.node.cost
            ranks = ((0, MUCH),) if target.ranks is None else target.ranks
            rank = next((priority for priority, until in ranks if target.outstanding < until), -MUCH + 1)
            if (rank, -load) > best and self.ready(way):
                found, best = way, (rank, -load)
        return found

    def soonest(self) -> str | None:
        """The same by the expected time, for an unsettled delivery and without a consumer here."""
        found, least = None, float("inf")
        usual = self.address.usual or 1.0
        for target in self.address.targets.values():
            way, number = self.neighbour_for(target), target.outstanding + target.node.cost + 1
            each, floor = (target.speed.each, target.window.least) if target.speed is not None else (0.0, 0.0)
            full = target.window is not None and target.window.full(target.outstanding)
            cost = max(number * (each or usual), floor)
            if cost < least and self.ready(way) and (self.trace or not full):
                found, least = way, cost
        return found

    def take(self) -> list[str]:
        """The neighbours that were sent something since the last look, once for each."""
        self.hub.turn()
        found: list[str] = []
        for name, peer in self.peers.items():
            for seen in peer.frames():
                if isinstance(seen, Seen) and isinstance(seen.performative, Transfer):
                    found.append(name)
                    self.received[name] += 1
                    if not seen.performative.settled:
                        self.unsettled[name].append(seen.performative.delivery_id or 0)
        return found

    def empty(self) -> None:
        """Nothing waits any more: there are consumers again, and credit and room for all."""
        for _ in range(100):
            if self.address.pending is None:
                return
            for name in NEIGHBOURS:
                self.core.remote_routers.add_consumers(name, KEY, self.treatment)
                self.core.nodes[name].valid_origins = frozenset(INGRESSES)
                self.give_credit(name, MUCH)
            self.core.remote_routers.update_paths()
            self.settle()
            self.take()
        raise AssertionError("some still wait")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("treatment", "over"),
    [
        (BALANCED, {}),
        (BALANCED, {"here": True}),
        (BALANCED, {"clients": False}),
        (BALANCED, {"ranked": True}),
        (BALANCED, {"ranked": True, "here": True}),
        (BALANCED, {"ranked": True, "clients": False}),
        (MULTICAST, {}),
        (MULTICAST, {"clients": False}),
    ],
)
def test_a_delivery_goes_where_a_comparison_of_all_routers_leads(
    treatment: int, over: dict[str, bool], seed: int
) -> None:
    rng = random.Random(f"{treatment} {sorted(over)} {seed}")
    mesh = Mesh(rng, treatment, **over)
    gone: Counter[str] = Counter()
    for _ in range(STEPS):
        for _ in range(rng.choice((0, 0, 1, 3))):
            mesh.change()
        mesh.empty()
        mesh.take()
        if treatment == MULTICAST or rng.random() < 0.8:
            gone.update(mesh.message(settled=True))
        elif "ranked" in over or "here" in over:
            mesh.expected_after(settled=False)
            mesh.way.end.feed(mesh.frame)
            mesh.take()
        else:
            gone.update(mesh.message(settled=False))
    if "here" in over:
        assert gone, "some went to other routers"
    elif "clients" in over:
        assert gone.keys() == {*"CDEF"}, "B does not get its messages back"
    else:
        assert gone.keys() == {*NEIGHBOURS}


def lines_of_a_message(routers: int, treatment: int, ranks: list[int] | None = None) -> int:
    """The lines of a pre-settled message that entered the mesh elsewhere."""
    hub = core_hub()
    far(hub, routers, treatment)
    core, source = core_of(hub), neighbour(hub, "S")
    for name in core.nodes:
        core.nodes[name].valid_origins = frozenset({"in"})
    for name in list(core.addresses["M0q"].targets) if ranks else ():
        tell_room(hub, name, ranks or [])
    send(producer(hub), 1)  # one is outstanding
    message = from_mesh("q", "0/in", ["0/in", "0/S"])
    for number in range(3):
        source.send(frames.transfer(number, message, handle=3, settled=True))
    last = frames.transfer(3, message, handle=3, settled=True)
    return lines(lambda: source.end.feed(last))


@pytest.mark.parametrize(
    ("treatment", "ranks"),
    [(BALANCED, None), (BALANCED, [3, 5]), (MULTICAST, None)],
    ids=["balanced", "priorities", "multicast"],
)
def test_a_presettled_message_costs_the_same_however_many_routers_have_consumers(
    treatment: int, ranks: list[int] | None
) -> None:
    assert lines_of_a_message(100, treatment, ranks) <= lines_of_a_message(8, treatment, ranks) + SLACK
