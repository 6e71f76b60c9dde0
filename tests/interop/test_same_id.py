"""Routers with the id of another one: they are refused, and a restart of the other one is not."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.mesh import Mesh, known_routers
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]
LIMIT_S = 60.0
TAKEN = "amqp:not-allowed: another router with id C is connected"


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Mesh]:
    """A – B – C; C connects to B."""
    mesh = Mesh(tmp_path, 3, "line")
    try:
        yield mesh.start()
    finally:
        mesh.stop()


def another_c(folder: Path, target: RouterProcess) -> RouterProcess:
    """A router with the id C that connects to another one."""
    port = free_port()
    text = section("router", id="C", mode="interior")
    text += section("listener", name="clients", host="127.0.0.1", port=port)
    text += section(
        "connector", name="out", host="127.0.0.1", port=target.ports[1], role="inter-router", saslMechanisms="ANONYMOUS"
    )
    return RouterProcess(folder, "twin", text, [port])


def start_later(twin: RouterProcess, instance: int) -> None:
    """Start a router in a later second than that instance: routers that start in the same one cannot be told apart."""
    wait_until(lambda: time.time() >= instance + 1, LIMIT_S)
    twin.start()


def link_of(router: RouterProcess) -> tuple[str, str]:
    """connectionStatus of a router's only connector, and the reason in connectionMsg."""
    with ManagementClient(router.url) as client:
        (row,) = client.query("connector", ["connectionStatus", "connectionMsg"])
        return str(row["connectionStatus"]), str(row["connectionMsg"]).partition(" failed: ")[2]


def instance_of_c(router: RouterProcess) -> int:
    """0: it does not know C."""
    with ManagementClient(router.url) as client:
        rows = client.query("router.node", ["id", "instance"])
        return next((int(row["instance"]) for row in rows if row["id"] == "C"), 0)


@pytest.mark.parametrize("place", ["A", "B"], ids=["some hops away", "next to it"])
def test_a_router_with_the_id_of_another_is_refused(mesh: Mesh, tmp_path: Path, place: str) -> None:
    before = instance_of_c(mesh["A"])
    twin = another_c(tmp_path, mesh[place])
    try:
        start_later(twin, before)
        wait_until(lambda: link_of(twin) == ("FAILED", TAKEN), LIMIT_S, twin.log_tail)
        wait_until(lambda: mesh[place].log.count("event=router.refused") >= 3, LIMIT_S, mesh.logs)
        assert re.search(r"Router refused: another router with id C .*\[event=router.refused", mesh[place].log)
        assert known_routers(twin) == {"C"}
    finally:
        twin.stop()
    for router in mesh.routers[:2]:
        assert not re.search("Router C removed|Neighbour C lost|restart of router C", router.log), router.log_tail()
        assert instance_of_c(router) == before


def test_a_restart_is_not_refused_while_the_former_process_keeps_its_connections(mesh: Mesh, tmp_path: Path) -> None:
    before = instance_of_c(mesh["A"])
    twin = another_c(tmp_path, mesh["B"])
    mesh["C"].pause()
    try:
        start_later(twin, before)
        wait_until(lambda: instance_of_c(mesh["A"]) > before, LIMIT_S, mesh.logs)
        mesh["C"].resume()
        wait_until(lambda: link_of(mesh["C"]) == ("FAILED", TAKEN), LIMIT_S, mesh.logs)
        wait_until(lambda: known_routers(twin) == {"A", "B", "C"}, LIMIT_S, mesh.logs)
    finally:
        mesh["C"].resume()
        twin.stop()


def test_a_killed_router_is_back_at_once(mesh: Mesh) -> None:
    for returns in range(2, 5):
        before = instance_of_c(mesh["A"])
        mesh["C"].kill()
        start_later(mesh["C"], before)
        wait_until(lambda times=returns: mesh["A"].log.count("Router C added") >= times, LIMIT_S, mesh.logs)  # type: ignore[misc]
    assert "router.refused" not in mesh.logs()
