"""The routers with consumers tell those that ask what these consumers can take."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.demand import KEY, Told, ask, got, later, local, record, remote, send, turn, windows
from tests.kit.pump import Hub, core_hub, core_of


@pytest.fixture
def hub() -> Hub:
    return core_hub()


@pytest.fixture
def told(hub: Hub) -> Told:
    return record(hub)


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
    for router_id in "BC":
        core_of(hub).remote_routers.node_up(router_id)
        ask(hub, router_id)
    core_of(hub).remote_routers.node_down("C")
    core_of(hub).demand.lost()
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


def test_the_window_of_who_has_no_credit_left_does_not_grow(hub: Hub, told: Told) -> None:
    """Else it would take many settlements until a slow one gets no more than it works on."""
    peers = [local(hub, 10), local(hub, 10)]
    ask(hub, "B")
    send(hub, 40)
    assert [got(peer) for peer in peers] == [10, 10]
    for _ in range(20):
        later(hub, 0.25)
    assert [out.window.limit for out in core_of(hub).addresses[KEY].consumers] == [10, 10]
    peers[0].send(frames.credit(20))
    for _ in range(20):
        later(hub, 0.25)
    assert [got(peer) for peer in peers] == [10, 0], "its credit allows more: perhaps it settles 20 at a time"


def test_a_consumer_that_leaves_while_it_is_counted_is_left_out(hub: Hub, told: Told) -> None:
    peers = [local(hub, 1) for _ in range(60)]
    core_of(hub).demand.arrived("B", {"address": KEY, "waits": 1, "at": 5})
    core_of(hub).context.portions.run()
    for peer in peers[:20]:
        peer.send(frames.detach())
    turn(hub)
    later(hub, 0.25)
    assert windows(told)["B"] == 80


def test_nobody_is_told_when_the_last_consumer_leaves_meanwhile(hub: Hub, told: Told) -> None:
    peer = local(hub, 1)
    core_of(hub).demand.arrived("B", {"address": KEY, "waits": 1, "at": 5})
    peer.send(frames.detach())
    later(hub, 0.25)
    assert windows(told) == {}


@pytest.mark.parametrize(("concurrency", "credit", "window"), [(8, 100, 12), (8, 8, 12), (8, 4, 6), (1, 100, 2)])
def test_consumers_that_work_on_several_at_a_time_take_so_many(
    hub: Hub, told: Told, concurrency: int, credit: int, window: int
) -> None:
    peer = local(hub, credit)
    core_of(hub).addresses[KEY].consumers[0].concurrency = concurrency
    ask(hub, "B")
    assert windows(told) == {"B": window}
    assert got(peer) == 0
