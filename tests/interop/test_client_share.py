"""`clientShare` of the entity `router`: clients above it are sent away when nothing is under way on their links."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.kit.clients import Client
from tests.kit.process import standalone
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = pytest.mark.e2e

WAIT_S = 60


def test_idle_clients_are_sent_away_and_those_with_deliveries_stay(tmp_path: Path) -> None:
    router = standalone(tmp_path)
    router.start()
    with ExitStack() as stack:
        stack.callback(router.stop)
        manager = stack.enter_context(ManagementClient(router.url))

        def row() -> dict[str, Any]:
            (found,) = manager.query("router", [])
            return dict(found)

        def set_share(share: int) -> None:
            manager.update({"clientShare": share, "clientShareSeconds": 0}, "router", name=str(row()["name"]))

        clients = [stack.enter_context(Client(router.url, container_id=f"c{k}")) for k in range(8)]
        receiver = clients[0].receiver("work", credit=1)
        sent = clients[7].sender("work").send("unsettled", wait=False)
        received = receiver.next()
        for client in clients[1:7]:
            client.receiver("other")
            client.sender("other", wait=False)
        assert row()["clientConnections"] == 8, "without the one that manages"
        set_share(2)
        wait_until(lambda: all(client.ended.is_set() for client in clients[1:7]), WAIT_S, "six clients are sent away")
        assert not clients[0].ended.is_set()
        assert not clients[7].ended.is_set()
        assert (row()["clientConnections"], row()["clientConnectionsMoved"]) == (2, 6)
        assert router.log.count("moved to another router, which has fewer clients") == 6

        received.accept()
        assert sent.outcome() == "accepted"
        set_share(1)
        wait_until(lambda: clients[0].ended.is_set(), WAIT_S, "the older one is sent away")
        assert row()["clientConnections"] == 1
