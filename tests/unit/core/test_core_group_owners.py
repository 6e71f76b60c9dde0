"""What a router tells of its message groups, and when: to all, soon after a change, ever more rarely after that."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.demand import KEY, Told, later, local, record, remote, turn
from tests.kit.groups import ALL_SLOTS, configure, half, tell_groups, unconfigure
from tests.kit.pump import Hub, core_hub, core_of
from waymesh_router.core.forwarding.group_owners import GRACE_S, MOST_GIFTS
from waymesh_router.core.forwarding.groups import SLOTS


@pytest.fixture
def hub() -> Hub:
    hub = core_hub()
    configure(hub)
    return hub


@pytest.fixture
def told(hub: Hub) -> Told:
    return record(hub)


def groups_told(hub: Hub, told: Told, router_id: str) -> list[tuple[int, int, dict[str, int]]]:
    """Consumers, number of slots and of those given away, as a router was told them."""
    turn(hub)
    return [
        (body["groups"], _count(body["slots"]), {taker: _count(slots) for taker, slots in body["gives"].items()})
        for router, body in told.take()
        if router == router_id and body.get("groups")
    ]


def _count(slots: bytes) -> int:
    return int.from_bytes(slots, "big").bit_count()


def own(hub: Hub) -> Any:
    return core_of(hub).addresses[KEY].groups


def test_a_router_with_consumers_tells_all_others_that_know_demand(hub: Hub, told: Told) -> None:
    remote(hub, "B")
    core_of(hub).remote_routers.remove_consumers("B", KEY)
    local(hub, 10)
    assert groups_told(hub, told, "B") == [(1, SLOTS, {})]
    local(hub, 10)
    later(hub, 0.3)
    assert {one[0] for one in groups_told(hub, told, "B")} == {2}


def test_it_is_repeated_ever_more_rarely(hub: Hub, told: Told) -> None:
    remote(hub, "B")
    core_of(hub).remote_routers.remove_consumers("B", KEY)
    local(hub, 10)
    times = []
    for step in range(120):
        later(hub, 0.25)
        times += [step / 4] * len(groups_told(hub, told, "B"))
    assert 4 <= len(times) <= 8
    assert times[-1] - times[-2] == pytest.approx(10.0, abs=0.3)


def test_what_is_given_to_another_router_is_told_to_it_first(hub: Hub, told: Told) -> None:
    local(hub, 10)
    for name in "BC":
        remote(hub, name)
    tell_groups(hub, "C", 1, 0)
    tell_groups(hub, "B", 1, 0)
    later(hub, 0.1)
    later(hub, 0.1)
    assert own(hub).gives.keys() == {"B", "C"}
    sent = [(router, body) for router, body in told.take() if body.get("gives")]
    assert {router for router, _ in sent[:2]} == {"B", "C"}
    assert {_count(slots) for slots in sent[-1][1]["gives"].values()} == {SLOTS // 3}
    tell_groups(hub, "B", 1, own(hub).gives["B"])
    tell_groups(hub, "C", 1, own(hub).gives["C"])
    later(hub, 0.1)
    assert own(hub).gives == {}


def test_a_router_with_consumers_that_says_nothing_is_waited_for(hub: Hub, told: Told) -> None:
    remote(hub, "B")
    local(hub, 10)
    later(hub, 0.1)
    assert own(hub).slots == 0
    tell_groups(hub, "B", 1, half())
    later(hub, 0.1)
    assert own(hub).slots == 0, "the other one has the rest until it gives it"
    core_of(hub).remote_routers.remove_consumers("B", KEY)
    later(hub, 0.1)
    assert own(hub).slots == ALL_SLOTS
    remote(hub, "C")
    later(hub, 0.1)
    assert own(hub).incomplete
    for _ in range(10):
        later(hub, GRACE_S / 9)
    assert not own(hub).incomplete


def test_it_ends_with_the_setting(hub: Hub, told: Told) -> None:
    remote(hub, "B")
    tell_groups(hub, "B", 2, half())
    local(hub, 10)
    later(hub, 0.3)
    told.take()
    unconfigure(hub)
    turn(hub)
    later(hub, 0.3)
    assert own(hub) is None
    assert [body for router, body in told.take() if "groups" in body] == [{"address": KEY, "groups": 0}]
    target = core_of(hub).addresses[KEY].targets["B"]
    assert target.groups.consumers == 2, "it is known, should the setting come back"
    core_of(hub).demand.arrived("B", {"address": KEY, "groups": 0})
    assert target.groups is None


def test_a_new_router_is_told_soon(hub: Hub, told: Told) -> None:
    local(hub, 10)
    for _ in range(100):
        later(hub, 0.25)
    remote(hub, "B")
    core_of(hub).remote_routers.remove_consumers("B", KEY)
    told.take()
    core_of(hub).demand.met()
    later(hub, 0.3)
    assert groups_told(hub, told, "B") == [(1, SLOTS, {})]


@pytest.mark.parametrize(
    "body",
    [
        {"groups": "many", "slots": 5, "gives": []},
        {"groups": -1},
        {"groups": 1, "slots": b"x" * 200, "gives": {5: b"x", "R": 7}},
        {"groups": 1, "slots": "text", "gives": {str(number): b"\xff" for number in range(1000)}},
    ],
)
def test_messages_that_are_no_such_thing_tell_nothing(hub: Hub, told: Told, body: dict[str, Any]) -> None:
    remote(hub, "B")
    local(hub, 10)
    core_of(hub).demand.arrived("B", {"address": KEY, **body})
    later(hub, 0.1)
    groups = core_of(hub).addresses[KEY].targets["B"].groups
    assert groups is None or (groups.slots == 0 and len(groups.gives) <= MOST_GIFTS)
