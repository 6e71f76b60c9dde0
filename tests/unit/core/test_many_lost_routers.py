"""A router is lost for whose link thousands of deliveries of message groups wait: they move in portions, and each group
stays in order. Those of lost consumers: test_many_lost_groups.py."""

from __future__ import annotations

import random

import pytest

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.demand import KEY
from tests.kit.groups import ALL_SLOTS, got
from tests.kit.pump import Peer
from tests.unit.core.interior_peer import Interior, edge_hub
from tests.unit.core.test_many_lost_groups import A_TURN, MANY, WINDOW, Scene, order
from waymesh_router.core.forwarding import lost_links
from waymesh_router.core.forwarding.groups import slot_of
from waymesh_router.core.link_kinds import BALANCED
from waymesh_router.core.model import RouterLink
from waymesh_router.core.portions import RoundsOfEach
from waymesh_router.core.settlement import interruptions


def router(scene: Scene, router_id: str, credit: int = 0) -> Peer:
    """Another router with a consumer."""
    peer = neighbour(scene.hub, router_id, credit=0)
    scene.core.nodes[router_id].demand = True
    scene.core.remote_routers.add_consumers(router_id, KEY, BALANCED)
    if credit:
        peer.end.feed(frames.credit(credit, 2, incoming_window=WINDOW))
    scene.hub.turn()
    return peer


def lose_router(scene: Scene, peer: Peer, router_id: str) -> None:
    """Its connection is lost, and it can no longer be reached."""
    peer.kill()
    scene.core.remote_routers.remove_consumers(router_id, KEY)
    scene.core.remote_routers.node_down(router_id)


def test_what_waits_for_a_lost_router_moves_in_portions_and_in_order() -> None:
    scene = Scene()
    first = router(scene, "B")
    link: RouterLink = first.conn.data_out[0]
    scene.send(*["a"] * MANY)
    second = router(scene, "C", 10 * MANY)
    assert link.undelivered() == MANY
    lose_router(scene, first, "B")
    left = link.undelivered()
    assert MANY - A_TURN <= left < MANY
    scene.send("a", "b", "a")
    while scene.core.context.portions:
        scene.portion()
        assert left - A_TURN <= link.undelivered() <= left + 2
        left = link.undelivered()
    scene.rest()
    found = got(second)
    assert order(found, "a") == [*range(MANY + 1), MANY + 2]
    assert order(found, "b") == [MANY + 1]
    scene.check()
    scene.send("a")
    assert order(got(second), "a") == [MANY + 3]


def test_a_router_is_lost_while_deliveries_of_a_lost_consumer_move_to_it() -> None:
    """What has moved to its link is older than what has not."""
    scene = Scene()
    first = scene.consumer()
    scene.send(*["a"] * MANY)
    second = router(scene, "B")
    link: RouterLink = second.conn.data_out[0]
    first.kill()
    while link.undelivered() < MANY // 2:
        scene.portion()
    third = router(scene, "C", 10 * MANY)
    lose_router(scene, second, "B")
    assert len(scene.groups.lost) == 2
    scene.send("a", "b", "a")
    scene.rest()
    found = got(third)
    assert order(found, "a") == [*range(MANY + 1), MANY + 2]
    assert order(found, "b") == [MANY + 1]
    scene.check()


def test_without_another_router_they_are_released() -> None:
    scene = Scene()
    first = router(scene, "B")
    scene.send(*["a"] * MANY)
    lose_router(scene, first, "B")
    count = scene.released()
    assert count <= A_TURN
    scene.rest()
    assert count + scene.released() == MANY
    assert scene.core.budget.kept == 0
    assert not scene.groups.lost


def test_what_waits_for_a_lost_uplink_is_released_in_portions() -> None:
    scene = Scene(edge_hub())
    interior = Interior(scene.hub, credit=0)
    interior.tell(KEY, True)
    (target,) = scene.core.addresses[KEY].targets.values()
    link = target.link
    assert link is not None
    scene.send(*["a"] * MANY)
    assert link.undelivered() == MANY
    interior.peer.peer.kill()
    count = scene.released()
    assert count <= A_TURN
    scene.rest()
    assert count + scene.released() == MANY
    assert scene.core.budget.kept == 0


PLACES = {KEY: "abcd", "M0q.x": "efgh"}
"""Two addresses with message groups, and groups of each."""


class Routers:
    """Other routers, each with consumers of one or both addresses. The one that came first has all slots."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.live: dict[str, tuple[Peer, list[str]]] = {}
        self.number = 0

    def come(self, *places: str) -> None:
        self.number += 1
        name = f"r{self.number:03}"
        core = self.scene.core
        peer = neighbour(self.scene.hub, name, credit=0)
        core.nodes[name].demand = True
        slots = (ALL_SLOTS >> 1).to_bytes(128, "big")
        for key in places:
            core.remote_routers.add_consumers(name, key, BALANCED)
            core.demand.arrived(name, {"address": key, "groups": 1, "slots": slots})
        self.live[name] = peer, list(places)
        self.scene.hub.turn()

    def go(self, name: str) -> None:
        """One is lost, unless it is the last one of an address."""
        peer, places = self.live[name]
        if any(len([one for _, one in self.live.values() if key in one]) == 1 for key in places):
            return
        del self.live[name]
        peer.kill()
        for key in places:
            self.scene.core.remote_routers.remove_consumers(name, key)
        self.scene.core.remote_routers.node_down(name)
        self.scene.hub.turn()

    def give(self, name: str, credit: int) -> None:
        peer, _ = self.live[name]
        link = peer.conn.data_out[0]
        peer.end.feed(frames.credit(credit, 2, delivery_count=link.delivery_count, incoming_window=WINDOW))
        self.scene.hub.turn()

    def got(self) -> list[str]:
        return [one for peer, _ in self.live.values() for one in got(peer)]


@pytest.mark.parametrize("few", [0, lost_links.FEW])
@pytest.mark.parametrize("seed", range(6))
def test_random_routers_come_and_go(seed: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group is in order, at one router after the other, and each message has come to one; also where some of the
    routers, and so the links to them, serve two addresses, and where these are told later that a link is lost."""
    monkeypatch.setattr(interruptions, "AT_ONCE", 0)
    monkeypatch.setattr(lost_links, "FEW", few)
    if not few:
        monkeypatch.setattr(RoundsOfEach, "begin", RoundsOfEach.begin_later)
    assert len({slot_of(name.encode()) for name in "".join(PLACES.values())}) == 8
    rng = random.Random(seed)
    scene = Scene()
    other = scene.peer(frames.attach_sender(address="q.x"))
    scene.senders.append(other)
    routers = Routers(scene)
    routers.come(*PLACES)
    found: list[str] = []
    moves = 0
    for _ in range(300):
        step = rng.random()
        if step < 0.4:
            sender, names = rng.choice([(0, PLACES[KEY]), (2, PLACES["M0q.x"])])
            scene.send(*rng.choices(names, k=rng.randrange(60)), sender=sender)
        elif step < 0.5:
            routers.come(*rng.choice([[KEY], ["M0q.x"], list(PLACES)]))
        elif step < 0.65:
            routers.go(rng.choice(list(routers.live)))
            moves = max(moves, len(scene.groups.lost))
        elif step < 0.7:
            routers.give(rng.choice(list(routers.live)), 30)
        else:
            scene.portion()
        found += routers.got()
    assert moves > 1
    for _ in range(3):
        scene.rest()
        for name in routers.live:
            routers.give(name, 10 * MANY)
        found += routers.got()
    for name in "".join(PLACES.values()):
        numbers = order(found, name)
        assert numbers == sorted(numbers)
    assert len(found) == len(set(found)) == sum(scene.numbers[peer] for peer in scene.senders)
    scene.check()
