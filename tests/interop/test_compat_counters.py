"""Counters and rows as tools for qdrouterd read them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.shared import fresh
from tests.kit.clients import Client
from tests.kit.fixtures import StartRouter
from tests.kit.process import RouterProcess
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]


@pytest.fixture
def router(start_router: StartRouter) -> RouterProcess:
    return start_router()


@pytest.fixture
def management(router: RouterProcess) -> Iterator[ManagementClient]:
    with ManagementClient(router.url) as client:
        yield client


def test_presettled_deliveries_count_when_they_arrive(router: RouterProcess, management: ManagementClient) -> None:
    """Before anybody takes them."""
    address = fresh()

    def counts() -> list[tuple[int, int]]:
        rows = management.query("router.link", ["linkDir", "owningAddr", "presettledCount", "deliveryCount"])
        mine = [row for row in rows if row["owningAddr"] == f"M0{address}" and row["linkDir"] == "in"]
        return [(row["presettledCount"], row["deliveryCount"]) for row in mine]

    def of_router() -> int:
        return int(management.query("router", ["presettledDeliveries"])[0]["presettledDeliveries"])

    with Client(router.url) as client:
        before = of_router()
        client.receiver(address, credit=0)
        sender = client.sender(address, presettled=True)
        for number in range(5):
            sender.send(str(number))
        wait_until(lambda: counts() == [(5, 5)], what=lambda: str(counts()))
        assert of_router() == before + 5


def test_a_standalone_router_has_no_row_of_routers(management: ManagementClient) -> None:
    assert management.query("router.node") == []
    assert management.nodes() == []


def test_the_settings_of_user_groups_are_in_the_schema(management: ManagementClient) -> None:
    kinds = management.node_operation("GET-SCHEMA")["entityTypes"]
    assert "users" in kinds["vhostUserGroupSettings"]["attributes"]
