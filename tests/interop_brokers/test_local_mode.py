"""`waymesh up` with a real Broker-J: the example, with a user's changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import proton
import pytest

from tests.brokers.broker_j import BrokerJ
from tests.brokers.process import PASSWORD
from tests.kit.clients import Client
from tests.kit.local_mode import ROOT, Up, mesh_up, start
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.brokers, pytest.mark.engine_independent]

EXAMPLE = ROOT / "examples" / "local-broker.yaml"
QUEUE, ARCHIVE = "orders.new", "archive.2026"
LINKS = ("AutoLink/new-orders-in", "AutoLink/new-orders-out", "LinkRoute/archive")
COUNT = 300


@pytest.fixture
def up(tmp_path: Path, brokerj_durable: BrokerJ) -> Iterator[Up]:
    """The example's mesh, which has a wrong password for the broker."""
    for queue in (QUEUE, ARCHIVE):
        brokerj_durable.create_queue(queue)
    manifests = EXAMPLE.read_text().replace("port: 5772", f"port: {brokerj_durable.ports.scram}")
    try:
        with mesh_up(tmp_path, manifests, "edge is ready: 2 routers") as running:
            yield running
    finally:
        for queue in (QUEUE, ARCHIVE):
            brokerj_durable.delete("queue", queue)


def wait_active(up: Up, times: int) -> None:
    """Until the Broker and all links have been told to be active so many times."""
    for subject in ("Broker/store", *LINKS):
        up.wait_for(f"{subject} is active on 2/2", times)


def names(up: Up, kind: str) -> list[str]:
    """What the two routers have of a type; it is the broker that chooses by which of them a message comes."""
    found = []
    for router in ("edge-0", "edge-1"):
        with up.client(router) as client:
            found += [str(row["name"]) for row in client.query(kind, ["name"])]
    return found


def test_a_broker_s_links_come_fail_and_go_without_loss(up: Up, brokerj_durable: BrokerJ) -> None:
    pids = up.pids()
    up.wait_for("Broker/store: edge-")
    assert "is active" not in up.text
    up.edit("password: router-password", f"password: {PASSWORD}")
    wait_active(up, 1)

    with Client(up.url("edge-0")) as near, Client(up.url("edge-1")) as far:
        for address in (QUEUE, ARCHIVE):
            sent = near.sender(address).send(proton.Message(body=address, durable=True))
            assert sent.outcome() == "accepted"
            received = far.receiver(address, credit=1).next()
            assert received.message.body == address
            received.accept()

    brokerj_durable.kill()
    for subject in LINKS:
        up.wait_for(f"{subject}: edge-0: the broker is not connected: ")
    brokerj_durable.start()
    wait_active(up, 2)
    assert up.pids() == pids


def test_autolinks_that_are_taken_away_under_load_lose_nothing(up: Up, brokerj_durable: BrokerJ) -> None:
    up.edit("password: router-password", f"password: {PASSWORD}")
    wait_active(up, 1)
    with Client(up.url("edge-0")) as near, Client(up.url("edge-1")) as far:
        sender, receiver = near.sender(QUEUE), far.receiver(QUEUE, credit=20)
        sent = [sender.send(proton.Message(body=number, durable=True)) for number in range(COUNT)]
        held = receiver.take(20, accept=False)
        text = up.file.read_text()
        up.write("---\n".join(part for part in text.split("---\n") if "kind: AutoLink" not in part))
        up.wait_for("quiesce and remove router.config.autoLink new-orders-in", times=2)
        assert "k8s/default/AutoLink/new-orders-in" in names(up, "router.config.autoLink")
        for received in held:
            received.accept()
        accepted = sum(one.outcome() == "accepted" for one in sent)
        wait_until(lambda: brokerj_durable.depth(QUEUE) == accepted - len(held), 60, "what was received has left")
    # Until now what had come into the mesh waited for the consumer.
    wait_until(lambda: not names(up, "router.config.autoLink"), 60, "the autolinks gone")
    wait_until(lambda: brokerj_durable.consumers(QUEUE) == 0, 60, "the broker's side of them gone")
    assert brokerj_durable.depth(QUEUE) == accepted - len(held)


def output_of(*words: str) -> str:
    """What `waymesh` prints with these words."""
    process = start(*words)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 0, text
    return text


def test_the_page_for_users_holds(up: Up) -> None:
    """docs/broker.md: its messages pass, and its commands show the links."""
    page = (ROOT / "docs" / "broker.md").read_text(encoding="utf-8").split("```")[1::2]
    code = next(block for block in page if block.startswith("python")).removeprefix("python")
    up.edit("password: router-password", f"password: {PASSWORD}")
    wait_active(up, 1)
    for told, router in (("127.0.0.1:5672", "edge-0"), ("127.0.0.1:5673", "edge-1")):
        assert told in code
        code = code.replace(told, up.url(router))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "an order\n", done.stderr
    lines = [line.partition(" #")[0].split()[1:] for block in page for line in block.splitlines()]
    lines = [words for words in lines if words[:1] == ["stat"]]
    shown = [output_of(*line, "--bus", up.management_url("edge-0")) for line in lines]
    assert len(shown) == 4
    assert shown[0].count("active") == 2
    assert "archive" in shown[1]
    assert "route-container" in shown[2]
    assert "orders.new" in shown[3]
    assert "active" in output_of("status", "--state-dir", str(up.state))
