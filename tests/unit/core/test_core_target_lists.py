"""The remote routers that a message can go to are computed again after the paths have changed."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.unit.core.test_core_choice import handles, producer, remote, send
from waymesh_router.core.link_kinds import CLOSEST, MULTICAST


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def test_the_nearest_router_is_another_one_after_the_costs_have_changed(hub: Hub) -> None:
    near, far = remote(hub, "B", CLOSEST, 1), remote(hub, "C", CLOSEST, 2)
    sender, core = producer(hub), core_of(hub)
    send(sender, 2)
    core.nodes["B"].cost = 3
    core.remote_routers.update_paths()
    sender.send(*[frames.transfer(number) for number in (2, 3, 4)])
    assert (len(handles(near)), len(handles(far))) == (2, 3)


def test_each_neighbour_gets_one_copy_for_all_routers_behind_it(hub: Hub) -> None:
    peers: list[Peer] = [neighbour(hub, "B"), neighbour(hub, "C")]
    core = core_of(hub)
    for router_id in "DE":
        core.remote_routers.node_up(router_id)
        core.nodes[router_id].next_hop = core.nodes["B"]
        core.remote_routers.add_consumers(router_id, "M0q", MULTICAST)
    sender = producer(hub)
    sender.send(frames.transfer(0, settled=True))
    assert [len(handles(peer)) for peer in peers] == [1, 0]
    core.nodes["E"].next_hop = core.nodes["C"]
    core.remote_routers.update_paths()
    sender.send(frames.transfer(1, settled=True))
    assert [len(handles(peer)) for peer in peers] == [1, 1]
