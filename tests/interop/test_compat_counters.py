"""Counters and rows as tools for qdrouterd read them."""

from __future__ import annotations

from collections.abc import Iterator

import proton
import pytest

from tests.interop.shared import fresh
from tests.kit.clients import Client
from tests.kit.fixtures import StartRouter
from tests.kit.mesh import Mesh
from tests.kit.process import RouterProcess, section
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


def test_links_between_routers_have_rows(mesh2_line: Mesh) -> None:
    """Those of control messages first, with the addresses that they are for."""
    with ManagementClient(mesh2_line["A"].url) as client:
        rows = client.query("router.link", ["linkType", "linkDir", "owningAddr", "deliveryCount"])
    control = {(row["linkDir"], row["owningAddr"]): row for row in rows if row["linkType"] == "router-control"}
    assert set(control) == {("in", "Lqdrouter"), ("out", "Lqdhello")}
    assert all(row["deliveryCount"] for row in control.values())
    assert len([row for row in rows if row["linkType"] == "inter-router"]) == 2 * 10  # for each priority


def test_an_exchange_counts_what_it_diverts(router: RouterProcess, management: ManagementClient) -> None:
    address, other = fresh(), fresh()
    management.create("exchange", {"address": address, "alternateAddress": other}, name="e")
    management.create("binding", {"exchangeName": "e", "bindingKey": "a", "nextHopAddress": fresh()}, name="b")

    def counts() -> tuple[int, ...]:
        (row,) = management.query("exchange")
        return tuple(row[f"{name}Count"] for name in ("received", "forwarded", "diverted", "dropped"))

    with Client(router.url) as client:
        sender = client.sender(address)
        assert sender.send(proton.Message(subject="b")).outcome() == "released"
        assert counts() == (1, 0, 0, 1)
        receiver = client.receiver(other, 10)
        assert sender.send(proton.Message(subject="b")).outcome() == "accepted"
        receiver.take(1)
        assert sender.send(proton.Message(subject="a")).outcome() == "accepted", "the next hop has no consumer"
        receiver.take(1)
        assert counts() == (3, 0, 2, 1)
        assert management.query("binding")[0]["matchedCount"] == 1


def test_compat_18_routed_links_have_the_address_of_their_link_route(start_router: StartRouter) -> None:
    broker = start_router("B")
    route = {"prefix": "far", "connection": "broker"}
    router = start_router(
        "A",
        section("connector", name="broker", role="route-container", host="127.0.0.1", port=broker.port)
        + section("linkRoute", direction="in", **route)
        + section("linkRoute", direction="out", **route),
    )

    with ManagementClient(router.url) as management, Client(router.url) as client:
        wait_until(lambda: {row["operStatus"] for row in management.query("linkRoute")} == {"active"})
        client.receiver("far.x")
        client.sender("far.y")
        found = management.query("router.link", ["owningAddr", "linkDir", "peer"])
    routed = [row for row in found if str(row["owningAddr"])[:1] in "CD"]
    rows = sorted((row["owningAddr"], row["linkDir"], row["peer"] is not None) for row in routed)
    assert rows == [("Cfar", "in", True), ("Cfar", "out", True), ("Dfar", "in", True), ("Dfar", "out", True)]
