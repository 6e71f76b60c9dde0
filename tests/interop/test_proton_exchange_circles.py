"""Two routers whose exchanges lead to each other: a proton client's message is copied once by each of them."""

from __future__ import annotations

import proton
import pytest

from tests.interop.shared import wait_consumers
from tests.kit.clients import Client
from tests.kit.mesh import Mesh
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

EXCHANGE, BINDING = "router.config.exchange", "router.config.binding"


def received(management: ManagementClient) -> tuple[int, int]:
    (row,) = management.query(EXCHANGE)
    return row["receivedCount"], row["droppedCount"]


def test_a_circle_of_exchanges_ends(mesh2_line: Mesh) -> None:
    first, second = mesh2_line[0], mesh2_line[1]
    with ManagementClient(first.url) as at_first, ManagementClient(second.url) as at_second:
        for management, name, other in ((at_first, "east", "west"), (at_second, "west", "east")):
            management.create(EXCHANGE, {"address": name}, name=name)
            management.create(BINDING, {"exchangeName": name, "nextHopAddress": other})
            management.create(BINDING, {"exchangeName": name, "nextHopAddress": f"{name}/kept"})
        with Client(second.url) as client:
            east, west = client.receiver("east/kept", 100), client.receiver("west/kept", 100)
            for address in ("east/kept", "west"):
                wait_consumers(first, address, remote=1)
            wait_consumers(second, "east", remote=1)
            with Client(first.url) as producer:
                sender = producer.sender("east")
                for sent in sender.send_all([proton.Message(body=number, subject="x") for number in range(10)]):
                    assert sent.outcome() == "accepted"
            for receiver in (east, west):
                assert [received.body for received in receiver.take(10)] == list(range(10))
            wait_until(lambda: received(at_first) == (20, 10))
            assert received(at_second) == (10, 0)
            assert (east.arrived.qsize(), west.arrived.qsize()) == (0, 0)
