"""The examples of `waymesh import` in local mode: the meshes come up and pass messages."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from tests.kit.clients import Client
from tests.kit.local_mode import ROOT, Up
from tests.kit.process import standalone
from waymesh_operator.cli.main import run_command

pytestmark = pytest.mark.e2e

EXAMPLES = ROOT / "examples" / "migration"


def imported(file: Path) -> str:
    with redirect_stdout(io.StringIO()) as out:
        assert run_command(["import", str(file)]) == 0
    return out.getvalue()


POLICY = """router {
    mode: interior
    id: A
}
listener {
    host: 0.0.0.0
    port: amqp
}
policy {
    enableVhostPolicy: yes
}
vhost {
    hostname: shop
    allowUnknownUser: yes
    groups: {
        $default: {
            remoteHosts: 127.0.0.0/8
            sources: news.*
            targets: news.*
        }
    }
}
vhost {
    hostname: closed
    allowUnknownUser: yes
    groups: {
        $default: {
            remoteHosts: 10.0.0.*
            sources: *
        }
    }
}
"""


def test_an_imported_policy_denies_what_it_denied(tmp_path: Path) -> None:
    """With clients of the mesh in local mode: by vhost, remote host and address."""
    (tmp_path / "a.conf").write_text(POLICY, encoding="utf-8")
    up = Up(tmp_path, imported(tmp_path / "a.conf"))
    try:
        up.wait_for("a is ready")
        up.wait_for("is active on 1/1", times=2)
        with Client(up.url("a-0"), virtual_host="shop") as client:
            assert passes(client, client, "news.local")
            assert "unauthorized-access" in str(client.receiver("orders").wait_detached())
        for name in ("closed", "elsewhere"):
            with Client(up.url("a-0"), virtual_host=name, wait=False) as client:
                assert client.wait_ended()
    finally:
        up.stop()
        up.end_routers()


def run(command: str, up: Up, *arguments: str) -> tuple[int, str]:
    """Exit code and output of a command about the meshes that run."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = run_command([command, *arguments, "--state-dir", str(up.state)])
    return code, out.getvalue()


def passes(sending: Client, receiving: Client, address: str) -> bool:
    """Whether a message is received from the address and its sender learns that."""
    receiver = receiving.receiver(address, credit=1)
    sent = sending.sender(address).send(address)
    received = receiver.next()
    received.accept()
    return received.message.body == address and sent.outcome() == "accepted"


def test_imported_meshes_pass_messages(tmp_path: Path) -> None:
    """Another router is the broker; its addresses are the queues. The commands about running meshes work too."""
    broker = standalone(tmp_path, "store").start()
    text = "---\n".join(imported(EXAMPLES / name) for name in ("qdrouterd.conf", "interconnect.yaml"))
    up = Up(tmp_path, text.replace("port: 5772", f"port: {broker.port}"))
    try:
        for said in ("router-a is ready", "office is ready: 2 routers"):
            up.wait_for(said)
        up.wait_for("is active on 1/1", times=4)
        up.wait_for("is active on 2/2", times=2)
        with Client(up.url("router-a-0")) as a, Client(up.url("office-0")) as near, Client(up.url("office-1")) as far:
            assert passes(a, a, "queue.first")
            assert passes(a, a, "b2.x")
            assert passes(near, far, "orders.new")
            assert passes(far, near, "archive.2020")
        code, text = run("status", up)
        assert code == 0
        for expected in ("Routers of office", "office-1", "queue-first-in", "archive", "SUCCESS"):
            assert expected in text
        code, text = run("topology", up, "office")
        assert (code, "1 connections" in text, "office-1" in text) == (0, True, True)
        code, text = run("drain", up, "office-1")
        assert (code, "office-1 is drained" in text) == (0, True)
        assert "no router office-9 runs on this machine" in run("drain", up, "office-9")[1]
    finally:
        up.stop()
        up.end_routers()
        broker.stop()
