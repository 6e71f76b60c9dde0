"""An Exchange in local mode: its copies, changes while messages flow, repair, and the router after a restart."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message

from tests.kit.clients import Client
from tests.kit.local_mode import Up, mesh_up
from waymesh_client.errors import ConnectionFailed

pytestmark = pytest.mark.e2e

BOTH = ["asia.#", "eu.#"]
MANIFEST = """\
apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: mesh}
spec:
  size: 2
---
apiVersion: waymesh.io/v1alpha1
kind: Exchange
metadata: {name: news}
spec:
  routerRef: {name: mesh}
  address: news
  alternateAddress: rest
  bindings:
  - {bindingKey: "eu.#", nextHopAddress: europe}
  placement: {routers: List, ordinals: [1]}
"""


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with mesh_up(tmp_path, MANIFEST, "Exchange/news is active on 1/1") as running:
        yield running


def present(up: Up) -> tuple[list[object], list[object]]:
    """The alternate addresses of the exchanges of the router that has them, and the keys of their bindings."""
    with up.client("mesh-1") as client:
        exchanges, bindings = client.query("router.config.exchange"), client.query("router.config.binding")
    return [row["alternateAddress"] for row in exchanges], sorted(row["bindingKey"] for row in bindings)


def known(up: Up, address: str) -> bool:
    """Whether the router without the exchange runs and knows an address at the other one."""
    try:
        with up.client("mesh-0") as client:
            rows = client.query("router.address", ["name", "remoteCount"])
    except ConnectionFailed:
        return False
    return any(row["name"] == f"M0{address}" and row["remoteCount"] for row in rows)


def test_an_exchange_copies_and_follows_its_manifest(up: Up) -> None:
    up.wait(lambda: known(up, "news"), "the address of the exchange")
    with Client(up.url("mesh-1")) as consumer, Client(up.url("mesh-0")) as client:
        europe, rest, asia = (consumer.receiver(address, 10) for address in ("europe", "rest", "asia"))
        sender = client.sender("news")
        assert sender.send(Message(subject="eu.sports", body="a")).outcome() == "accepted"
        assert europe.next().body == "a"
        assert sender.send(Message(subject="asia.sports", body="b")).outcome() == "accepted"
        assert rest.next().body == "b"

        up.edit("  placement:", '  - {bindingKey: "asia.#", nextHopAddress: asia}\n  placement:')
        up.wait(lambda: present(up) == (["rest"], BOTH), "the new binding")
        assert sender.send(Message(subject="asia.sports", body="c")).outcome() == "accepted"
        assert asia.next().body == "c"

    up.edit("  alternateAddress: rest\n", "")
    up.wait(lambda: present(up) == ([None], BOTH), "another exchange with the same bindings")
    with up.client("mesh-1") as manager:
        manager.delete("router.config.exchange", name=manager.query("router.config.exchange")[0]["name"])
    up.wait(lambda: present(up) == ([None], BOTH), "what was removed by hand")

    os.kill(up.pids()["mesh-1"], signal.SIGKILL)
    up.wait_for("restart router mesh-1 (signal 9 SIGKILL)")
    up.wait_for("mesh-1 is up (pid", times=2)
    up.wait(lambda: present(up) == ([None], BOTH), "the exchange of the router that was started again")
    with up.client("mesh-0") as other:
        assert other.query("router.config.exchange") == []
