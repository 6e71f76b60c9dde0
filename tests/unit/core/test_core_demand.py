"""An ingress router whose deliveries wait asks, the routers with consumers tell windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.message import decode_message
from waymesh_amqp.performatives import Transfer
from waymesh_amqp.types import Symbol
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


@pytest.fixture
def hub() -> Hub:
    return core_hub()


@pytest.fixture
def told(hub: Hub) -> Told:
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
    core_of(hub).address_table.get(KEY, BALANCED)
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(), frames.credit(credit))
    return peer


def send(hub: Hub, count: int) -> None:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender())
    peer.send(*[frames.transfer(number) for number in range(count)])
    core_of(hub).demand.ask_soon()


def got(peer: Peer) -> int:
    """Transfers since the last look."""
    return sum(isinstance(f, Seen) and isinstance(f.performative, Transfer) for f in peer.frames())


def later(hub: Hub, seconds: float) -> None:
    core = core_of(hub)
    core.now += seconds
    core.spread.tick(core.now)
    core.demand.ask_soon()
    core.demand.tick(core.now)
    core.credit.send_freed()


def tell(hub: Hub, router_id: str, window: int, rate: int = 0, at: int = 0) -> None:
    core = core_of(hub)
    core.demand.arrived(router_id, {"address": KEY, "window": window, "rate": rate, "usual": 0, "at": at})
    core.credit.send_freed()


# ---- at the ingress router


def test_a_lone_delivery_goes_without_a_question(hub: Hub, told: Told) -> None:
    peers = [remote(hub, "B"), remote(hub, "C")]
    send(hub, 2)
    assert [got(peer) for peer in peers] == [1, 1]
    assert told.take() == []


def test_waiting_deliveries_ask_once_and_go_by_the_windows(hub: Hub, told: Told) -> None:
    there, other = remote(hub, "B"), remote(hub, "C")
    send(hub, 30)
    assert [(router, body["waits"]) for router, body in told.take()] == [("B", 1), ("C", 1)]
    tell(hub, "B", 7)
    assert (got(there), got(other)) == (7, 4), "C has told nothing yet"
    tell(hub, "C", 0)
    tell(hub, "B", 9)
    assert (got(there), got(other)) == (2, 0)
    later(hub, 0.25)
    assert told.take() == []


def test_what_is_settled_during_a_round_trip_is_added(hub: Hub, told: Told) -> None:
    there, _ = remote(hub, "B"), remote(hub, "C")
    send(hub, 60)
    at = told.take()[0][1]["at"]
    core_of(hub).now += 0.1
    tell(hub, "B", 4, rate=200_000, at=at)
    assert got(there) == 4 + 20


def test_who_tells_nothing_is_not_asked_and_has_a_measured_window(hub: Hub, told: Told) -> None:
    old, _ = remote(hub, "B", demand=False), remote(hub, "C")
    send(hub, 30)
    assert [router for router, _ in told.take()] == ["C"]
    assert got(old) == 4


def test_the_question_is_repeated_and_ends(hub: Hub, told: Told) -> None:
    remote(hub, "B"), remote(hub, "C")
    send(hub, 10)
    told.take()
    later(hub, 10.5)
    assert [body["waits"] for _, body in told.take()] == [1, 1]
    tell(hub, "B", 20)
    later(hub, 0.5)
    assert told.take() == []
    later(hub, 2.5)
    assert [(router, body["waits"]) for router, body in told.take()] == [("B", 0), ("C", 0)]
    assert core_of(hub).addresses[KEY].targets["B"].window.told < 0


def test_a_new_router_is_asked_too(hub: Hub, told: Told) -> None:
    remote(hub, "B"), remote(hub, "C")
    send(hub, 10)
    told.take()
    remote(hub, "D")
    send(hub, 10)
    later(hub, 0.5)
    assert [router for router, _ in told.take()] == ["D"]


NONSENSE: list[dict[str, Any]] = [
    {}, {"address": 7}, {"address": "M0other", "waits": 1}, {"address": KEY, "window": -1},
    {"address": KEY, "window": "x", "rate": [], "at": None},
]  # fmt: skip


@pytest.mark.parametrize("body", NONSENSE)
def test_messages_that_mean_nothing(hub: Hub, told: Told, body: dict[str, Any]) -> None:
    remote(hub, "B"), remote(hub, "C")
    send(hub, 10)
    told.take()
    core_of(hub).demand.arrived("B", body)
    core_of(hub).demand.arrived("unknown", body)
    later(hub, 0.25)
    assert told.take() == []


# ---- at the egress router


def ask(hub: Hub, router_id: str, waits: int = 1) -> None:
    core_of(hub).demand.arrived(router_id, {"address": KEY, "waits": waits, "at": 5})


def windows(told: Told) -> dict[str, int]:
    return {router: body["window"] for router, body in told.take()}


def test_who_asks_is_told_a_share(hub: Hub, told: Told) -> None:
    for _ in range(4):
        local(hub, 1)
    ask(hub, "B")
    assert told.sent[0][1]["at"] == 5
    assert windows(told) == {"B": 8}, "one in work and one that waits for each"
    ask(hub, "C")
    assert windows(told) == {"B": 4, "C": 4}
    ask(hub, "B", 0)
    assert windows(told) == {"C": 8}


def test_the_remainder_goes_round(hub: Hub, told: Told) -> None:
    local(hub, 1)
    seen = []
    for router_id in "BCD":
        ask(hub, router_id)
    told.take()
    for _ in range(3):
        later(hub, 5.0)
        seen.append({router for router, window in windows(told).items() if window == 0})
    assert len({frozenset(routers) for routers in seen}) > 1


def test_who_does_not_repeat_it_or_is_lost_is_forgotten(hub: Hub, told: Told) -> None:
    local(hub, 1)
    ask(hub, "B")
    ask(hub, "C")
    core_of(hub).demand.lost("C")
    told.take()
    later(hub, 1.0)
    assert windows(told) == {"B": 2}
    later(hub, 30.0)
    ask(hub, "D")
    assert windows(told) == {"D": 2}


def test_without_consumers_nothing_is_told(hub: Hub, told: Told) -> None:
    remote(hub, "C"), remote(hub, "D")
    ask(hub, "B")
    assert told.take() == []


# ---- local consumers


def test_local_consumers_get_what_their_credit_allows_while_nobody_asks(hub: Hub, told: Told) -> None:
    peers = [local(hub, 100), local(hub, 100)]
    remote(hub, "B", demand=False)
    send(hub, 60)
    assert sum(got(peer) for peer in peers) >= 40
    assert told.take() == []


def test_local_consumers_are_held_back_while_somebody_asks(hub: Hub, told: Told) -> None:
    peers = [local(hub, 100), local(hub, 100)]
    ask(hub, "B")
    send(hub, 60)
    assert [got(peer) for peer in peers] == [10, 10]
    ask(hub, "B", 0)
    core_of(hub).credit.send_freed()
    assert [got(peer) for peer in peers] == [20, 20]


def test_who_settles_nothing_gets_its_credit_after_a_while(hub: Hub, told: Told) -> None:
    local(hub, 100)
    ask(hub, "B")
    assert windows(told) == {"B": 10}
    send(hub, 120)
    for _ in range(20):
        later(hub, 0.25)
    assert windows(told) == {"B": 100}


# ---- what a delivery says


def test_a_delivery_that_follows_a_told_window_names_its_router(hub: Hub, told: Told) -> None:
    there, _ = remote(hub, "B"), remote(hub, "C")
    send(hub, 30)
    got(there)
    tell(hub, "B", 7)
    (first, *_) = [f for f in there.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]
    annotations = decode_message(first.payload).message_annotations or {}
    assert annotations[Symbol("x-opt-qd.to")] == "_topo/0/B/q"
    assert annotations[Symbol("x-opt-qd.phase")] == 39
