"""Clients that are told where the other routers are, and go there when their own router is lost or leaves."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.kit.clients import Client
from tests.kit.local_mode import DEADLINE_S, Up, mesh_up
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.e2e

MANIFEST = """
apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: mesh}
spec:
  size: 3
  balance: "Off"
  drain: {timeoutSeconds: 3}
  listeners: [{name: amqp, port: 5672, failover: Auto}]
"""


def told(client: Client) -> list[str]:
    """The addresses in the open."""
    listed = client.call(lambda: client.connection.remote_properties)["failover-server-list"]
    assert {entry["scheme"] for entry in listed} == {"amqp"}
    return [f"amqp://{entry['network-host']}:{entry['port']}" for entry in listed]


def told_by(up: Up, router: str) -> list[str]:
    """What a new client of a router is told."""
    with Client(up.url(router)) as client:
        return told(client)


def test_a_client_finds_another_router_by_the_list_that_it_was_given(tmp_path: Path) -> None:
    with mesh_up(tmp_path, MANIFEST, "mesh is ready: 3 routers") as up:
        urls, pids = [up.url(f"mesh-{k}") for k in range(3)], up.pids()
        with Client(urls[1]) as client:
            first = told(client)
            assert first == [urls[2], urls[0], urls[1]]
            os.kill(pids["mesh-1"], signal.SIGKILL)
            wait_until(client.ended.is_set, DEADLINE_S)
        with Client(first[0]) as client:
            assert client.connection.remote_container == "mesh-2"
            second = told(client)
            up.wait_for("mesh is ready: 3 routers", times=2)
            up.edit("size: 3", "size: 2")
            wait_until(client.ended.is_set, DEADLINE_S)
        with Client(second[0]) as client, Client(second[1]) as other:
            assert [one.connection.remote_container for one in (client, other)] == ["mesh-0", "mesh-1"]
            received = other.receiver("orders", credit=1)
            sent = client.sender("orders").send("found")
            message = received.next()
            message.accept()
            assert (message.message.body, sent.outcome()) == ("found", "accepted")
        up.wait_for("mesh is ready: 2 routers")
        assert told_by(up, "mesh-0") == [urls[1], urls[0]]
        assert up.pids()["mesh-0"] == pids["mesh-0"]  # its list changed while it ran
