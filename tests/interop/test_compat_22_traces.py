"""Frames (module PROTOCOL) and messages (module MESSAGE) in the log, switched on and off at run time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import proton
import pytest

from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.fixtures import StartMesh
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_client.channel import Tls
from waymesh_client.management import ManagementClient


def wait_for_line(router: RouterProcess, form: str) -> None:
    wait_until(lambda: re.search(form, router.log) is not None, 60, form)


@pytest.fixture
def router(tmp_path: Path) -> Iterator[RouterProcess]:
    """A router whose first listener logs the parts `to` and `subject` of messages, if the module MESSAGE does."""
    port = free_port()
    listener = section(
        "listener", name="clients", host="127.0.0.1", port=port, messageLoggingComponents="subject,app-properties"
    )
    process = RouterProcess(tmp_path, "A", section("router", id="A", mode="standalone") + listener, [port])
    process.start()
    yield process
    process.stop()


def connection_of(management: ManagementClient, container: str) -> str:
    rows = management.query("connection", ["identity", "container"])
    return next(str(row["identity"]) for row in rows if row["container"] == container)


def pass_one(client: Client, address: str, **properties: str) -> None:
    receiver, sender = client.receiver(address, credit=1), client.sender(address)
    sent = sender.send(proton.Message(body="the-body", **properties))
    receiver.next().accept()
    assert sent.outcome() == "accepted"


def test_compat_22_the_frames_of_one_connection_are_logged_until_it_is_switched_off(router: RouterProcess) -> None:
    with ManagementClient(router.url) as management, Client(router.url, container_id="traced") as client:
        number = connection_of(management, "traced")
        management.update({"enableProtocolTrace": True}, "connection", identity=number)
        assert management.read("connection", identity=number)["enableProtocolTrace"] is True
        pass_one(client, "one")
        for form in (
            rf"PROTOCOL \(trace\) \[C{number}\]:FRAME:\d+ <- @attach\(18\) \[name=.*handle=\d+",
            rf"PROTOCOL \(trace\) \[C{number}\]:FRAME:\d+ -> @attach\(18\) \[name=.*handle=\d+",
            rf"PROTOCOL \(trace\) \[C{number}\]:FRAME:\d+ <- @transfer\(20\) \[handle=\d+, delivery-id=0.*\d+ bytes\)",
            rf"PROTOCOL \(trace\) \[C{number}\]:FRAME:\d+ -> @transfer\(20\)",
            rf"PROTOCOL \(trace\) \[C{number}\]:FRAME:\d+ <- @disposition\(21\)",
        ):
            wait_for_line(router, form)
        assert "the-body" not in router.log
        management.update({"enableProtocolTrace": False}, "connection", identity=number)
        assert management.read("connection", identity=number)["enableProtocolTrace"] is False
        pass_one(client, "two")
    assert not re.search(r"PROTOCOL.*two", router.log)
    assert {number} == set(re.findall(r"PROTOCOL \(trace\) \[C(\d+)\]", router.log))


def test_compat_22_the_module_logs_the_frames_of_all_connections_from_the_first_byte_on(router: RouterProcess) -> None:
    with ManagementClient(router.url) as management:
        management.update({"enable": "trace+"}, "log", identity="log/PROTOCOL")
        with Client(router.url, container_id="second") as client:
            number = connection_of(management, "second")
            pass_one(client, "one")
        wait_until(lambda: f"[C{number}]:FRAME:0 -> @close(24)" in router.log)
        management.update({"enable": "default"}, "log", identity="log/PROTOCOL")
        with Client(router.url) as client:
            pass_one(client, "two")
    mine = [line for line in router.log.splitlines() if f"PROTOCOL (trace) [C{number}]" in line]
    assert f"[C{number}]: <- SASL 1.0.0" in mine[0]
    assert any("@sasl-init(65) [mechanism=" in line and "bytes)" in line for line in mine)
    assert any('<- @open(16) [container-id="second"' in line for line in mine)
    assert not re.search(r"PROTOCOL.*two", router.log)


def test_compat_22_messages_are_logged_with_the_parts_that_the_listener_names(router: RouterProcess) -> None:
    with ManagementClient(router.url) as management, Client(router.url, container_id="talks") as client:
        number = connection_of(management, "talks")
        pass_one(client, "one", subject="before")
        management.update({"enable": "trace+"}, "log", identity="log/MESSAGE")
        pass_one(client, "two", subject="during", id="unlisted")
        for verb in ("Received", "Sent"):
            form = rf"MESSAGE \(trace\) \[C{number}\] {verb} Message{{subject=\"during\"}} on link '.+'"
            wait_for_line(router, form)
        management.update({"enable": "default"}, "log", identity="log/MESSAGE")
        pass_one(client, "three", subject="behind")
    assert not re.search("before|behind|unlisted", router.log)
    assert "PROTOCOL" not in router.log


def test_frames_within_tls_are_logged(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))
    profile = section("sslProfile", name="tls", certFile=server.cert, privateKeyFile=server.key)
    ports = free_port(), free_port()
    listeners = section("listener", name="plain", host="127.0.0.1", port=ports[0])
    listeners += section("listener", name="tls", host="127.0.0.1", port=ports[1], sslProfile="tls", requireSsl=True)
    router = RouterProcess(tmp_path, "A", section("router", id="A", mode="standalone") + profile + listeners, [*ports])
    router.start()
    try:
        with ManagementClient(router.url) as management:
            management.update({"enable": "trace+"}, "log", identity="log/PROTOCOL")
            tls = Tls(ca=str(authority.cert), verify_name=False)
            with ManagementClient(f"amqps://127.0.0.1:{ports[1]}", tls=tls) as inside:
                (number,) = [row["identity"] for row in inside.query("connection") if row["isEncrypted"]]
            wait_until(lambda: f"[C{number}]:FRAME:0 -> @close(24)" in router.log)
    finally:
        router.stop()
    for way in ("<-", "->"):
        assert re.search(rf"PROTOCOL \(trace\) \[C{number}\]:FRAME:0 {way} @open\(16\) ", router.log)
        assert re.search(rf"PROTOCOL \(trace\) \[C{number}\]:FRAME:\d+ {way} @transfer\(20\) ", router.log)
    assert "not understood" not in router.log


def test_frames_between_routers_are_logged(start_mesh: StartMesh) -> None:
    mesh = start_mesh(2)
    with ManagementClient(mesh["A"].url) as management:
        rows = management.query("connection", ["identity", "role"])
        (number,) = [row["identity"] for row in rows if row["role"] == "inter-router"]
        management.update({"enableProtocolTrace": True}, "connection", identity=number)
        for way in ("<-", "->"):
            form = rf"PROTOCOL \(trace\) \[C{number}\]:FRAME:\d+ {way} @transfer\(20\) .*settled=true"
            wait_for_line(mesh["A"], form)
        management.update({"enableProtocolTrace": False}, "connection", identity=number)
    assert "not understood" not in mesh["A"].log
