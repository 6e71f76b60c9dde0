"""`waymesh up`: clients whose messages are always under way move to routers that were added, none of them twice."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.kit.crowd import Crowd, Traffic
from tests.kit.local_mode import DEADLINE_S, mesh_up
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.e2e

CLIENTS = 60
TRAFFIC = Traffic(under_way=2, work_s=0.1, gap_s=0.2, ring=True)
OLDER_S = 8.0
"""Ages are whole seconds, read some time apart: who connected just before a router started may be taken for younger."""
TEXT = """apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: mesh}
spec:
  size: 3
  listeners: [{name: amqp, port: 5672}]
"""


def test_busy_clients_move_to_added_routers_and_none_twice(tmp_path: Path) -> None:
    with (
        mesh_up(tmp_path, TEXT, "mesh is ready: 3 routers") as up,
        Crowd(CLIENTS, lambda: up.urls("mesh", 5), TRAFFIC) as crowd,
    ):
        wait_until(lambda: len(crowd.places) == CLIENTS, DEADLINE_S, "all are connected")
        assert crowd.largest() == CLIENTS // 3
        crowd.begin()
        connected = time.monotonic()
        wait_until(lambda: time.monotonic() > connected + OLDER_S, what="clients that are older than the added routers")
        up.edit("size: 3", "size: 5")
        up.wait_for("mesh is ready: 5 routers")

        def balanced() -> bool:
            return len(crowd.places) == CLIENTS and crowd.largest() <= 1.3 * CLIENTS / 5

        uneven = "no router has more than 1.3 times its share"
        wait_until(balanced, DEADLINE_S, lambda: f"{uneven}; {crowd.spread()}\n{up.text}")
        crowd.finish()
        wait_until(crowd.settled, DEADLINE_S, "all messages are accepted")
        assert max(crowd.moves.values()) == 1
        assert crowd.cut == 0, "nothing was under way to a receiver that had to move"
        assert set(crowd.received) == crowd.accepted
        assert set(crowd.received.values()) == {1}
