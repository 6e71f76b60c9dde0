"""Cases of long turns with demand, where many consumers for which another router asks, or many addresses, are the
thing, and with links that retire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.kit import frames
from tests.kit.answering import Container, neighbour
from tests.kit.groups import configure, message
from tests.kit.long_turns import LINKS_A_SESSION, MOST, Case, Scene, drop
from tests.kit.pump import Peer, core_hub
from waymesh_router.core.edge.messages import TRACKING_ADDRESS, encode_tracking
from waymesh_router.core.link_kinds import BALANCED
from waymesh_router.core.memory_levels import HIGH, NORMAL

PLAIN: Final = {"pattern": None, "waypoint": False, "ingressPhase": None, "egressPhase": None}
"""What else an `address` entity has."""


def _asked(count: int) -> tuple[Scene, Callable[[], object]]:
    """Consumers of an address, another router, and its question."""
    scene = Scene()
    scene.receivers(count, lambda _: "q", credit=10)
    scene.core.remote_routers.node_up("B")
    return scene, lambda: scene.core.demand.arrived("B", {"address": "M0q", "waits": 1})


def _looked_at(count: int) -> tuple[Scene, Callable[[], object]]:
    scene, ask = _asked(count)
    for turn in scene.turns(ask):
        turn()
    scene.messages(count)
    scene.core.now += 1.0
    return scene, lambda: scene.core.demand.tick(scene.core.now)


def _asker_lost(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = Scene()
    scene.core.remote_routers.node_up("B")
    scene.receivers(count, "a/{}".format)
    for number in range(count):
        scene.core.demand.arrived("B", {"address": f"M0a/{number}", "waits": 1})
        scene.now_and_then(number)
    for turn in scene.turns(lambda: None):
        turn()

    def lose() -> None:
        scene.core.remote_routers.node_down("B")
        scene.core.demand.lost()

    return scene, lose


def _waiting_of_two(scene: Scene, count: int, message: bytes) -> Callable[[], object]:
    """Deliveries of two senders wait for a consumer. Retires the link of one of them."""
    scene.receivers(1, lambda _: "q")
    senders = [scene.messages(0), scene.messages(0)]
    for number in range(count):
        senders[number % 2].end.feed(frames.transfer(number // 2, message))
        scene.now_and_then(number)
    scene.hub.turn()
    (link,) = [link for link in senders[0].session().links if link is not None]
    return lambda: scene.core.endpoint_links.retire(link)


def _sender_retires(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = Scene()
    return scene, _waiting_of_two(scene, count, frames.message(b""))


def _groups_retire(count: int) -> tuple[Scene, Callable[[], object]]:
    scene = Scene()
    configure(scene.hub)
    return scene, _waiting_of_two(scene, count, message("a", 0))


def _group_router_lost(count: int) -> tuple[Scene, Callable[[], object]]:
    """Messages of a group wait for the link to another router."""
    scene = Scene()
    configure(scene.hub)
    other = neighbour(scene.hub, "B", credit=0)
    scene.core.remote_routers.add_consumers("B", "M0q", BALANCED)
    link = other.conn.data_out[0]
    _send_many(scene, count, message("a", 0))
    assert link.undelivered() == count

    def lose() -> None:
        other.conn.eof("killed")
        scene.core.remote_routers.flush_consumers("B")
        scene.core.remote_routers.node_down("B")

    return scene, lose


def _addresses_of_router(count: int) -> tuple[Scene, Callable[[], object]]:
    """Messages of a group wait for the link to another router, one at each address."""
    scene = Scene()
    configure(scene.hub)
    other = neighbour(scene.hub, "B", credit=0)
    _send_to_each(scene, count, message("a", 0))
    assert other.conn.data_out[0].undelivered() == count
    return scene, lambda: other.conn.eof("killed")


def _neighbour_credit(count: int) -> tuple[Scene, Callable[[], object]]:
    """Messages wait for the credit of another router, one at each address; it issues some."""
    scene = Scene()
    other = neighbour(scene.hub, "B", credit=0)
    _send_to_each(scene, count)
    assert len(other.conn.waiting) == count
    return scene, lambda: other.end.feed(frames.credit(10, 2))


def _memory_again(count: int) -> tuple[Scene, Callable[[], object]]:
    """Senders attached while memory was short, and it is not any more."""
    scene = Scene()
    links = scene.core.endpoint_links
    links.set_memory(HIGH)
    scene.senders(count, "q.{}".format)
    assert len(links.withheld) == count
    return scene, lambda: links.set_memory(NORMAL)


def _budget_free(count: int) -> tuple[Scene, Callable[[], object]]:
    """Senders are held, each with a message that waits; half of the router's budget is free once one has been sent."""
    scene = Scene()
    budget = scene.core.budget
    budget.set_limits(1, MOST, MOST)
    budget.small = 0
    consumer = scene.receivers(1, lambda _: "q")
    _send_on_each(scene, scene.senders(count, lambda _: "q"), count)
    assert len(budget.braked) == count
    budget.set_limits(MOST, MOST, MOST)
    budget.small = 0
    return scene, lambda: scene.send(consumer, frames.credit(1))


def _large_lost(count: int) -> tuple[Scene, Callable[[], object]]:
    """Messages wait for the only consumer that takes their size."""
    scene = Scene()
    small = scene.peer()
    small.end.feed(frames.attach_receiver(address="q", max_message_size=100))
    small.end.feed(frames.credit(count, incoming_window=1 << 30))
    large = scene.receivers(1, lambda _: "q")
    (link,) = [link for link in large.session().links if link is not None]
    _send_many(scene, count, frames.message(bytes(101)))
    assert link.undelivered() == count
    return scene, lambda: large.conn.eof("killed")


def _gone_beyond(count: int) -> tuple[Scene, Callable[[], object]]:
    """Copies wait at an edge router for the interior router, which says that it has no consumer any more."""
    scene = Scene(core_hub(router_id="E", edge=True))
    scene.core.address_table.add_pattern({"prefix": "q", "distribution": "multicast", **PLAIN})
    sender = scene.senders(1, lambda _: "q")
    interior = Container(scene.hub, container_id="A", credit=0, role="edge")

    def tell(there: bool) -> None:
        (link,) = [link for link in interior.active() if link.address == TRACKING_ADDRESS]
        data = encode_tracking("M0q", there, "A")
        interior.send(frames.transfer(int(not there), data, handle=link.handle, settled=True, channel=link.channel))

    tell(True)
    for number in range(count):
        sender.end.feed(frames.transfer(number))
        scene.now_and_then(number)
    scene.hub.turn()
    (target,) = scene.core.addresses["M0q"].targets.values()
    assert target.link is not None
    assert target.link.undelivered() == count
    return scene, lambda: tell(False)


def _edge_senders_gone(count: int) -> tuple[Scene, Callable[[], object]]:
    """Senders of a client at an edge router have ended: the uplink needs no links for their addresses any more."""
    scene = Scene(core_hub(router_id="E", edge=True))
    sender = scene.senders(count, "q.{}".format)
    interior = Container(scene.hub, container_id="A", credit=0, role="edge")
    uplink = scene.core.uplink
    for turn in scene.turns(lambda: None):
        turn()
    sender.conn.eof("killed")
    for turn in scene.turns(lambda: None):
        turn()
    assert uplink is not None
    assert len(interior.active()) > count
    interior.peer.end.on_bytes = drop
    return scene, lambda: uplink.tick(0.0)


def _lookups_lost(count: int) -> tuple[Scene, Callable[[], object]]:
    """Attaches at an edge router wait for what the interior router says of link routes, and the uplink is lost."""
    scene = Scene(core_hub(router_id="E", edge=True))
    interior = Container(scene.hub, container_id="A", credit=MOST, role="edge")
    for session in interior.conn.sessions.values():
        interior.send(frames.flow(session.channel, incoming_window=MOST, outgoing_window=MOST))
    interior.peer.end.on_bytes = drop
    scene.senders(count, "q.{}".format)
    assert not scene.core.addresses.keys() & {"M0q.0", f"M0q.{count - 1}"}
    return scene, lambda: interior.conn.eof("killed")


def _send_to_each(scene: Scene, count: int, data: bytes | None = None) -> None:
    """A message for consumers of router B at each of many addresses."""
    for number in range(count):
        scene.core.remote_routers.add_consumers("B", f"M0q.{number}", BALANCED)
    _send_on_each(scene, scene.senders(count, "q.{}".format), count, data)


def _send_on_each(scene: Scene, sender: Peer, count: int, data: bytes | None = None) -> None:
    """An unsettled message on each link of `Scene.senders`."""
    for number in range(count):
        channel, handle = divmod(number, LINKS_A_SESSION)
        sender.end.feed(frames.transfer(handle, data, handle=handle, channel=channel))
        scene.now_and_then(number)
    scene.hub.turn()


def _send_many(scene: Scene, count: int, data: bytes) -> None:
    sender = scene.senders(1, lambda _: "q")
    for number in range(count):
        sender.end.feed(frames.transfer(number, data))
        scene.now_and_then(number)
    scene.hub.turn()


DEMAND_CASES: Final[Mapping[str, Case]] = {
    "demand-asked": Case("another router asks for an address; its consumers", _asked),
    "demand-tick": Case("deliveries wait for consumers that are held back; their number", _looked_at),
    "demand-lost": Case("a router that asked is lost; addresses for which it did", _asker_lost),
    "sender-retires": Case("a link retires; waiting deliveries, half of them from it", _sender_retires),
    "groups-router": Case("another router is lost; deliveries of a group that wait for it", _group_router_lost),
    "groups-addresses": Case("another router is lost; addresses with a delivery of a group", _addresses_of_router),
    "neighbour-credit": Case("another router issues credit; addresses with a delivery for it", _neighbour_credit),
    "memory-again": Case("memory is no longer short; senders that got no credit", _memory_again),
    "budget-free": Case("the router's budget has room again; senders that are held", _budget_free),
    "large-lost": Case("their consumer is lost; deliveries that only this one takes", _large_lost),
    "uplink-gone": Case("the interior router has no consumer any more; waiting copies", _gone_beyond),
    "uplink-senders": Case("an edge router's client is gone; senders of its uplink for this", _edge_senders_gone),
    "lookups-lost": Case("an edge router's uplink is lost; attaches that wait for a lookup", _lookups_lost),
    "groups-retires": Case("a link retires; waiting deliveries of a group, half of them", _groups_retire),
}
