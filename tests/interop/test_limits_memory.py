"""`maxMemory`: short of memory, a router serves who is there, and refuses what is new."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.interop.hostile import exchange_message
from tests.interop.raw_client import RawClient
from tests.interop.shared import fresh, patient_port
from tests.kit.clients import Client
from tests.kit.fixtures import StartMesh, StartRouter
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import Attach, Begin, Detach, Flow, Terminus
from waymesh_client.management import ManagementClient
from waymesh_operator.cli.main import run_command

pytestmark = [pytest.mark.interop, pytest.mark.e2e, pytest.mark.by_exec]


class Managed:
    """The entity `router`, over a connection that exists before memory gets short."""

    def __init__(self, router: RouterProcess, client: ManagementClient) -> None:
        self.router = router
        self._client = client

    def set(self, part_of_use: float | None) -> None:
        """Set `maxMemory` so that this part of it is in use now; None: remove it."""
        limit = 0 if part_of_use is None else int(self.router.resident_bytes() / part_of_use)
        self._client.update({"maxMemory": limit}, "router", identity=self.row()["identity"])

    def row(self) -> dict[str, Any]:
        (row,) = self._client.query("router", [])
        return dict(row)

    def await_state(self, state: str) -> None:
        wait_until(lambda: self.row()["memoryState"] == state, 60)


def test_connections_are_refused_while_memory_is_full_and_those_that_exist_are_served(router: RouterProcess) -> None:
    address = fresh()
    with ManagementClient(router.url) as client, Client(router.url) as there:
        managed = Managed(router, client)
        receiver, sender = there.receiver(address, 10), there.sender(address)
        managed.set(1.3)
        managed.await_state("full")
        for _ in range(2):
            with RawClient(router.port) as raw:
                raw.open()
                assert raw.close_error() == (
                    "amqp:resource-limit-exceeded",
                    "the router is short of memory (maxMemory)",
                )
        sent = sender.send("still here")
        receiver.next().accept()
        assert sent.outcome() == "accepted"
        assert managed.row()["connectionsRefusedMemory"] == 2
        managed.set(0.3)
        managed.await_state("normal")
        exchange_message(router.port)
    assert router.log.count("memory is full") == 1
    assert router.log.count("memory is normal") == 1


def test_waymesh_stat_shows_memory_its_limit_and_the_objects(
    router: RouterProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    with ManagementClient(router.url) as client:
        managed = Managed(router, client)
        managed.set(0.9)
        managed.await_state("high")
        assert run_command(["stat", "-m", "-b", router.url]) == 0
        managed.set(None)
        managed.await_state("normal")
    memory, _, objects = capsys.readouterr().out.partition("\n\n")
    assert ["Memory", "State", "high"] in [line.split() for line in memory.splitlines()]
    assert all(label in memory for label in ("Memory Usage", "Memory Limit", "Waiting Messages"))
    assert objects.splitlines()[0] == "Objects"
    assert objects.splitlines()[1].split() == ["type", "size", "total", "in-threads"]
    assert [line.split()[0] for line in objects.splitlines()[3:]] == [
        "address", "connection", "link", "router", "session",
    ]  # fmt: skip
    assert run_command(["stat", "-m", "-b", router.url, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["router"]["memoryState"] == "normal"
    assert [row["typeName"] for row in found["allocator"]] == ["address", "connection", "link", "router", "session"]


def test_new_links_of_connections_that_exist_are_refused_while_memory_is_full(router: RouterProcess) -> None:
    with ManagementClient(router.url) as client, RawClient(patient_port(router)) as raw:
        managed = Managed(router, client)
        raw.open()
        raw.begin()
        managed.set(1.3)
        managed.await_state("full")
        for receiver in (True, False):
            source, target = Terminus("source", address=fresh()), Terminus("target", address=fresh())
            raw.put(Attach("new", 5, role=receiver, source=source, target=target, initial_delivery_count=0))
            error = raw.expect(Detach).error
            assert error is not None
            assert (error.condition, error.description) == (
                "amqp:resource-limit-exceeded",
                "the router is short of memory (maxMemory)",
            )
            raw.put(Detach(handle=5, closed=True))
        raw.attach_sender("$management")
        managed.set(0.3)
        managed.await_state("normal")
        raw.attach_sender(fresh(), wait_credit=False)


def test_a_connection_that_begins_session_after_session_while_memory_is_full_ends(router: RouterProcess) -> None:
    port = patient_port(router)
    with ManagementClient(router.url) as client, RawClient(port) as raw, RawClient(port) as quiet:
        managed = Managed(router, client)
        for one in (raw, quiet):
            one.open()
            one.begin()
        managed.set(1.3)
        managed.await_state("full")
        for channel in range(1, 8):  # a client that works needs few: these are served
            raw.begin(channel)
        raw.put(Begin(next_outgoing_id=0, incoming_window=10, outgoing_window=10), channel=8)
        assert raw.close_error() == ("amqp:resource-limit-exceeded", "the router is short of memory (maxMemory)")
        quiet.begin(1)
        managed.set(0.3)
        managed.await_state("normal")
        for channel in range(2, 20):
            quiet.begin(channel)


def test_new_links_get_no_credit_while_memory_is_high_and_theirs_afterwards(router: RouterProcess) -> None:
    address, port = fresh(), patient_port(router)
    with ManagementClient(router.url) as client:
        managed = Managed(router, client)
        managed.set(0.9)
        managed.await_state("high")
        with RawClient(port) as raw:
            raw.open()
            raw.begin()
            raw.attach_receiver(address, credit=10)
            to_address = raw.attach_sender(address, wait_credit=False)
            anonymous = raw.attach_sender(None, wait_credit=False)
            management = raw.attach_sender("$management")  # waits for credit: it is given
            assert managed.row()["linksAwaitingMemory"] == 2
            managed.set(0.3)
            flows: dict[int | None, int | None] = {}
            while not {to_address, anonymous} <= flows.keys():
                flow = raw.expect(Flow)
                flows[flow.handle] = flow.link_credit
            assert flows[to_address] == flows[anonymous] == 250
            assert management not in flows
            assert managed.row()["linksAwaitingMemory"] == 0


def test_links_that_end_or_are_refused_meanwhile_are_forgotten(router: RouterProcess) -> None:
    with ManagementClient(router.url) as client:
        managed = Managed(router, client)
        managed.set(0.9)
        managed.await_state("high")
        with RawClient(router.port) as raw:
            raw.open()
            raw.begin()
            handle = raw.attach_sender(fresh(), wait_credit=False)
            raw.put(Detach(handle=handle, closed=True))
            raw.expect(Detach)
            waypoint = Terminus(kind="target", address=fresh(), capabilities=["qd.waypoint_1"])
            raw.put(Attach("bad", 7, role=False, source=Terminus("source"), target=waypoint, initial_delivery_count=0))
            assert raw.expect(Detach).error is not None
            raw.put(Detach(handle=7, closed=True))
            raw.attach_sender(fresh(), wait_credit=False)
            assert managed.row()["linksAwaitingMemory"] == 1
        wait_until(lambda: managed.row()["linksAwaitingMemory"] == 0, 60)


def test_routers_connect_while_memory_is_full(start_mesh: StartMesh) -> None:
    """And so management of a router that refuses clients goes over another one."""
    mesh = start_mesh(2)
    first, second = mesh.routers
    with ManagementClient(first.url) as client:
        managed = Managed(first, client)
        managed.set(1.3)
        managed.await_state("full")
        second.restart()
        wait_until(lambda: managed.row()["nodeCount"] == 1, 60)
        assert managed.row()["memoryState"] == "full"


def test_managers_connect_while_memory_is_full(start_router: StartRouter) -> None:
    port = free_port()
    router = start_router("A", section("listener", name="managers", host="127.0.0.1", port=port, management="write"))
    router.ports.append(port)
    router.wait_listening()
    with ManagementClient(router.url) as client:
        managed = Managed(router, client)
        managed.set(1.3)
        managed.await_state("full")
        with ManagementClient(f"amqp://127.0.0.1:{port}") as manager:
            assert manager.read("router")["memoryState"] == "full"


def test_limit_in_the_configuration_acts_from_the_start(start_router: StartRouter) -> None:
    router = start_router()
    router.stop()
    text = router.config_path.read_text(encoding="utf-8")
    router.config_path.write_text(text.replace("mode: standalone", "mode: standalone\n    maxMemory: 1000000"))
    router.start()
    with RawClient(router.port) as raw:
        raw.open()
        assert raw.close_error()[0] == "amqp:resource-limit-exceeded"
