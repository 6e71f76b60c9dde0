"""Management counters of route-containers: deliveries from and to them, and their routed links."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.network import SimRouter
from tests.simulation.full.routes import BOTH, Scene

AUTO = "autoLink {\naddress: queue\ndirection: %s\nconnection: broker\n}\n"
WAYPOINT = "address {\nprefix: queue\nwaypoint: yes\n}\n" + AUTO % "in" + AUTO % "out"


def rows(router: SimRouter, kind: str) -> list[dict[str, Any]]:
    adapter = router.router.agent.adapters[kind]
    return [dict(row) for row in adapter.rows(router.world.now)]


def counts(router: SimRouter) -> tuple[int, int]:
    (row,) = rows(router, "router")
    return row["deliveriesIngressRouteContainer"], row["deliveriesEgressRouteContainer"]


@pytest.fixture
def scene() -> Scene:
    return Scene("AB", BOTH + WAYPOINT, "address {\nprefix: queue\nwaypoint: yes\n}\n")


def test_deliveries_of_autolinks(scene: Scene) -> None:
    sender, receiver = scene.sender("queue"), scene.receiver("queue")
    for _ in range(3):
        scene.client.send(sender, message())
    scene.until(lambda: len(receiver.got) == 3)
    assert (counts(scene.first), counts(scene.last)) == ((0, 0), (3, 3))
    found = {row["name"]: row for row in rows(scene.last, "router.address")}
    names = ("deliveriesIngressRouteContainer", "deliveriesEgressRouteContainer")
    assert [found["M0queue"][name] for name in names] == [0, 3]
    assert [found["M1queue"][name] for name in names] == [3, 0]


def test_deliveries_of_link_routes_and_the_containers_of_their_addresses(scene: Scene) -> None:
    sender, receiver = scene.sender(), scene.receiver()
    for _ in range(2):
        scene.client.send(sender, message())
    scene.until(lambda: len(receiver.got) == 2)
    assert (counts(scene.first), counts(scene.last)) == ((0, 0), (2, 2))
    for router, containers in ((scene.first, 0), (scene.last, 1)):
        found = {row["name"]: row for row in rows(router, "router.address")}
        assert [found[key]["containerCount"] for key in ("Cb2", "Db2")] == [containers] * 2
    scene.broker.drop()
    scene.until(lambda: sender.gone)
    found = {row["name"]: row for row in rows(scene.last, "router.address")}
    assert found["Cb2"]["containerCount"] == 0


def test_routed_links_belong_to_their_link_route(scene: Scene) -> None:
    scene.sender()
    scene.receiver()
    for router in (scene.first, scene.last):
        shown = [
            (row["linkType"], row["linkDir"], row["owningAddr"])
            for row in rows(router, "router.link")
            if row["owningAddr"] in ("Cb2", "Db2")
        ]
        assert sorted(shown) == [("endpoint", d, key) for d in ("in", "out") for key in ("Cb2", "Db2")]
