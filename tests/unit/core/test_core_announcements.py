"""Routers with consumers tell all others what these can take, by priority, where any consumer has one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.demand import KEY, Told, ask, later, local, record, remote, tell_room, turn
from tests.kit.pump import Hub, core_hub, core_of
from tests.unit.core.test_core_priorities import consumer
from waymesh_router.core.link_kinds import CLOSEST


@pytest.fixture
def hub() -> Hub:
    return core_hub()


@pytest.fixture
def told(hub: Hub) -> Told:
    return record(hub)


def know(hub: Hub, names: str) -> None:
    """Routers that know demand."""
    for name in names:
        core_of(hub).remote_routers.node_up(name)
        core_of(hub).nodes[name].demand = True


def ranks(told: Told) -> dict[str, Any]:
    """What was told last, by router."""
    return {router: body["ranks"] for router, body in told.take() if "ranks" in body}


def test_all_routers_with_demand_are_told_of_priorities(hub: Hub, told: Told) -> None:
    know(hub, "BC")
    core_of(hub).remote_routers.node_up("D")
    local(hub, 3)
    turn(hub)
    assert told.take() == []
    consumer(hub, 5, 10)
    turn(hub)
    later(hub, 0.25)
    assert ranks(told) == {"B": [5, 10, 0, 3], "C": [5, 10, 0, 3]}


def test_it_is_repeated_ever_more_rarely(hub: Hub, told: Told) -> None:
    know(hub, "B")
    consumer(hub, 5, 10)
    turn(hub)
    seen = []
    for number in range(160):
        later(hub, 0.25)
        if ranks(told):
            seen.append(number * 0.25)
    assert 5 <= len(seen) <= 7
    assert seen[-1] - seen[-2] == pytest.approx(10.0, abs=0.3)


def test_a_router_that_comes_later_is_told(hub: Hub, told: Told) -> None:
    consumer(hub, 5, 10)
    for _ in range(80):
        later(hub, 0.25)
    know(hub, "B")
    core_of(hub).demand.met()
    later(hub, 0.25)
    assert ranks(told) == {"B": [5, 10]}


def test_who_asks_is_told_its_part_and_later_everything_again(hub: Hub, told: Told) -> None:
    know(hub, "BCD")
    consumer(hub, 5, 10)
    turn(hub)
    for _ in range(8):
        later(hub, 0.25)
    told.take()
    ask(hub, "B")
    ask(hub, "C")
    assert ranks(told) == {"B": [5, 5], "C": [5, 5]}
    ask(hub, "B", 0)
    assert ranks(told)["B"] == [5, 10]


def test_the_end_is_told_once(hub: Hub, told: Told) -> None:
    know(hub, "B")
    local(hub, 3)
    peer = consumer(hub, 5, 10)
    later(hub, 0.25)
    assert ranks(told) == {"B": [5, 10, 0, 3]}
    peer.send(frames.detach())
    turn(hub)
    assert ranks(told) == {"B": []}
    later(hub, 20.0)
    assert ranks(told) == {}


def test_consumers_without_a_priority_are_told_if_others_elsewhere_have_one(hub: Hub, told: Told) -> None:
    remote(hub, "B")
    local(hub, 3)
    tell_room(hub, "B", [-1, 4])
    later(hub, 0.25)
    assert ranks(told) == {"B": [0, 3]}
    tell_room(hub, "B", [])
    turn(hub)
    assert ranks(told) == {"B": []}


def test_nothing_is_told_of_addresses_that_are_not_balanced(hub: Hub, told: Told) -> None:
    know(hub, "B")
    core_of(hub).address_table.get(KEY).treatment = CLOSEST
    consumer(hub, 5, 10)
    later(hub, 0.25)
    assert told.take() == []


def test_many_routers_are_told_in_portions(hub: Hub, told: Told) -> None:
    core = core_of(hub)
    for number in range(100):
        core.remote_routers.node_up(f"R{number}")
        core.nodes[f"R{number}"].demand = True
    consumer(hub, 5, 10)
    most = 0
    while core.context.portions:
        before = len(told.sent)
        core.context.portions.run()
        most = max(most, len(told.sent) - before)
    assert len(told.sent) == 100
    assert most <= 8
