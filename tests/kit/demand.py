"""A core whose messages about demand are recorded, with neighbours and clients at address q."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_of
from waymesh_amqp.performatives import Transfer
from waymesh_router.core.control_plane_hooks import ControlPlaneHooks
from waymesh_router.core.link_kinds import BALANCED

KEY = "M0q"


class Told(ControlPlaneHooks):
    """Records the messages to other routers."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Mapping[str, Any]]] = []

    def tell(self, router_id: str, body: Mapping[str, object]) -> None:
        self.sent.append((router_id, body))

    def take(self) -> list[tuple[str, Mapping[str, Any]]]:
        sent, self.sent = self.sent, []
        return sent


def record(hub: Hub) -> Told:
    """Record what the core of a hub tells."""
    told = core_of(hub).context.control_plane = Told()
    return told


def remote(hub: Hub, router_id: str, demand: bool = True) -> Peer:
    """A neighbour with a consumer of `q`."""
    peer = neighbour(hub, router_id)
    core = core_of(hub)
    core.nodes[router_id].demand = demand
    core.remote_routers.add_consumers(router_id, KEY, BALANCED)
    return peer


def local(hub: Hub, credit: int) -> Peer:
    """A client with a consumer of `q`."""
    core_of(hub).address_table.get(KEY, BALANCED)
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(), frames.credit(credit))
    return peer


def send(hub: Hub, count: int) -> None:
    """Send messages to `q` from a client."""
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender())
    peer.send(*[frames.transfer(number) for number in range(count)])
    core_of(hub).demand.ask_soon()


def got(peer: Peer) -> int:
    """Transfers since the last look."""
    return sum(isinstance(f, Seen) and isinstance(f.performative, Transfer) for f in peer.frames())


def turn(hub: Hub) -> None:
    """Do all long work, and send what may go."""
    core = core_of(hub)
    core.demand.groups.soon()
    while core.context.portions:
        core.context.portions.run()
    core.credit.send_freed()


def later(hub: Hub, seconds: float) -> None:
    """What happens when some time has gone by."""
    core = core_of(hub)
    core.now += seconds
    core.spread.tick(core.now)
    core.demand.ask_soon()
    core.demand.tick(core.now)
    turn(hub)


def tell(hub: Hub, router_id: str, window: int, rate: int = 0, at: int = 0) -> None:
    """Another router tells its window."""
    core = core_of(hub)
    core.demand.arrived(router_id, {"address": KEY, "window": window, "rate": rate, "usual": 0, "at": at})
    core.credit.send_freed()


def ask(hub: Hub, router_id: str, waits: int = 1) -> None:
    """Another router waits, or does not any more."""
    core_of(hub).demand.arrived(router_id, {"address": KEY, "waits": waits, "at": 5})
    turn(hub)


def windows(told: Told) -> dict[str, int]:
    """The windows that were told, by router."""
    return {router: body["window"] for router, body in told.take()}


def tell_room(hub: Hub, router_id: str, ranks: list[int]) -> None:
    """Another router tells what its consumers can take, by priority."""
    core = core_of(hub)
    core.demand.arrived(router_id, {"address": KEY, "window": sum(ranks[1::2]), "ranks": ranks})
    turn(hub)
