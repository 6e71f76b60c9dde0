"""Events of real routers: each event of telemetry that docs/audit.md names happens, and no other."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.raw_client import AMQP, RawClient
from tests.kit.clients import Client
from tests.kit.mesh import known_routers
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_amqp.sasl import make_line
from waymesh_client.channel import Sasl
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient
from waymesh_schema.events import RECORD_EVENTS, LogEvent

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

CONVERGED_S = 6
"""Seconds after a change of paths until topology.converged is recorded, and a little more."""


class Run:
    """Routers A and B; everything that can be an event happens at A."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        names = ("clients", "people", "none", "mesh")
        self.ports = {name: free_port() for name in names}
        self.other = free_port()
        (folder / "people.users").write_text(make_line("alice", "secret", "plain"), encoding="utf-8")
        self.a = RouterProcess(folder, "A", self._config(), self.ports.values())
        joining = section("connector", name="toA", host="127.0.0.1", port=self.ports["mesh"], role="inter-router")
        self.b = RouterProcess(folder, "B", self._common("B", self.other) + joining, [self.other])
        self.twin_folder = folder / "twin"
        self.twin_folder.mkdir()
        port = free_port()
        self.twin = RouterProcess(self.twin_folder, "A", self._common("A", port, "spool-twin") + joining, [port])
        self.events: list[dict[str, Any]] = []

    def _common(self, name: str, port: int, spool: str = "") -> str:
        people = {"saslConfigDir": self.folder, "saslConfigName": "people"}
        router = section("router", id=name, mode="interior", stuckAfterSeconds=1, **people)
        listener = section("listener", name="clients", host="127.0.0.1", port=port, managementFiles=True)
        return router + listener + section("telemetry", path=self.folder / (spool or f"spool-{name}"))

    def _config(self) -> str:
        here = {"host": "127.0.0.1"}
        ports = self.ports
        broken = section("sslProfile", name="broken", caCertFile=self.folder / "missing.pem")
        return (
            self._common("A", ports["clients"])
            + broken
            + section("listener", name="people", port=ports["people"], saslMechanisms="PLAIN", allowInsecurePlain=True,
                      authenticatePeer=True, **here)
            + section("listener", name="none", port=ports["none"], management="none", maxConnections=10, **here)
            + section("policy", warnAtPercent=10)
            + section("listener", name="mesh", port=ports["mesh"], role="inter-router", **here)
            + section("connector", name="store", port=ports["people"], role="route-container", saslMechanisms="PLAIN",
                      saslUsername="alice", saslPassword="wrong", **here)
            + section("address", prefix="closed", distribution="unavailable")
        )  # fmt: skip

    def url(self, name: str) -> str:
        return f"amqp://127.0.0.1:{self.ports[name]}"

    def go(self) -> None:
        self.a.start()
        self.b.start()
        for router in (self.a, self.b):
            wait_until(lambda router=router: known_routers(router) == {"A", "B"}, 60.0)  # type: ignore[misc]
        self._refusals()
        self._changes()
        self._stalls()
        with ManagementClient(self.a.url) as management:
            since = management.read("router")["uptimeSeconds"]
            wait_until(lambda: management.read("router")["uptimeSeconds"] > since + CONVERGED_S)
        self.b.stop()
        wait_until(lambda: known_routers(self.a) == {"A"})
        self.twin.start()
        wait_until(lambda: "(critical)" in self.a.log)
        self.stop()
        for path in (self.folder / "spool-A").rglob("*.gz"):
            if "kind=event" in str(path):
                text = gzip.decompress(path.read_bytes()).decode()
                self.events += [json.loads(line) for line in text.splitlines()]

    def stop(self) -> None:
        for router in (self.twin, self.b, self.a):
            router.stop()

    def _refusals(self) -> None:
        with RawClient(self.ports["clients"]) as raw:
            raw.send(AMQP + b"\x00\x00\x00\x01\x02\x00\x00\x00")
            raw.read_to_end()
        with RawClient(self.ports["people"]) as raw:
            assert raw.login("PLAIN", "alice", "wrong").code == 1
        with Client(self.url("none")) as client:
            client.sender("$management", wait=False).wait_detached()
            client.receiver("closed", wait=False).wait_detached()

    def _stalls(self) -> None:
        """alice's consumer takes one message of three, and does not settle it."""
        login: dict[str, Any] = {"user": "alice", "password": "secret", "allowed_mechs": "PLAIN"}
        with (
            Client(self.url("people"), allow_insecure_mechs=True, **login) as alice,
            Client(self.url("clients")) as sender,
        ):
            alice.receiver("stalled", credit=1)
            out = sender.sender("stalled")
            for _ in range(3):
                out.send("x")
            wait_until(lambda: "event=delivery.stuck" in self.a.log and "event=link.blocked" in self.a.log)

    def _changes(self) -> None:
        with ManagementClient(self.url("people"), sasl=Sasl("PLAIN", "alice", "secret")) as alice:
            alice.update({"enable": "debug+"}, "log", name="log/AGENT")
            secret = {"host": "127.0.0.1", "port": str(free_port()), "role": "normal", "saslUsername": "x"}
            alice.create("connector", {**secret, "saslPassword": "s"}, name="made")
            with pytest.raises(ManagementError):
                alice.create("connector", {**secret, "cost": "none"})
            alice.delete("connector", name="made")
        with ManagementClient(self.b.url, router="A") as far:
            far.create("autoLink", {"addr": "far", "dir": "in"}, name="far")  # former names: a warning


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    run = Run(tmp_path_factory.mktemp("audit"))
    try:
        run.go()
        yield run
    finally:
        run.stop()


def test_each_event_of_the_page_happens_and_no_other(done: Run) -> None:
    assert {event["event"] for event in done.events} == set(RECORD_EVENTS)


def of(done: Run, name: str, **wanted: str) -> dict[str, Any]:
    found = [e for e in done.events if e["event"] == name and wanted.items() <= e["detail"].items()]
    assert len(found) == 1, f"{name}: {found}"
    return found[0]


def test_changes_name_who_made_them_and_which_attributes(done: Run) -> None:
    updated = of(done, "management.update")
    assert updated["object"] == "log/AGENT"
    host = updated["detail"].pop("host")
    assert host.startswith("127.0.0.1:")
    assert updated["detail"] == {"type": "log", "attributes": "enable", "user": "alice", "listener": "people"}
    created = of(done, "management.create", type="connector")
    assert set(created["detail"]["attributes"].split(",")) >= {"host", "port", "saslPassword"}
    assert of(done, "management.delete")["object"] == created["object"]
    line = f"management.update type=log identity=log/AGENT attributes=enable user=alice host={host} listener=people"
    assert f"AGENT (info) {line}" in done.a.log


def test_a_consumer_that_stops_is_named(done: Run) -> None:
    for kind, count in (("delivery.stuck", "1"), ("link.blocked", "2")):
        detail = of(done, kind)["detail"]
        assert (detail["deliveries"], detail["user"], detail["address"]) == (count, "alice", "M0stalled")
        assert int(detail["seconds"]) >= 1
        host = re.escape(detail["host"])
        assert re.search(rf"deliveries .* \[event={kind} user=alice host={host} listener=people\]", done.a.log)


def test_a_change_from_another_router_names_the_neighbour(done: Run) -> None:
    far = of(done, "management.create", type="router.config.autoLink")["detail"]
    assert (far["router"], far["attributes"]) == ("B", "address,direction,name")
    assert "user" not in far


def test_the_log_names_the_events_of_the_mesh(done: Run) -> None:
    ids = set(re.findall(r" \[event=(\S+?)[\] ]", done.a.log))
    assert ids <= set(LogEvent)
    assert ids >= {
        LogEvent.ROUTER_STARTED, LogEvent.ROUTER_STOPPING, LogEvent.LISTENER_OPENED, LogEvent.CONNECTION_REFUSED,
        LogEvent.LINK_LOST, LogEvent.POLICY_DENIED, LogEvent.POLICY_LIMIT, LogEvent.MANAGEMENT_UPDATE,
        LogEvent.TOPOLOGY_ROUTER_ADDED, LogEvent.TOPOLOGY_ROUTER_REMOVED,
    }  # fmt: skip
    who = r"user=anonymous router=B host=\S+ listener=mesh"
    assert re.search(rf"Link attached: .* \[event=link\.attached {who}\]", done.a.log)
