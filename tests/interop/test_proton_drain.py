"""Draining routers that have proton clients, over real sockets; `waymesh-router --drain`."""

from __future__ import annotations

import contextlib
import http.client
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import proton
import pytest

from tests.kit.clients import Client, Receiver
from tests.kit.mesh import Mesh, wait_address
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, command, section
from tests.kit.waiting import wait_until
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient

StartRouter = Callable[..., RouterProcess]
StartMesh = Callable[..., Mesh]
NO_CLOSE = "amqp:connection:framing-error: connection aborted"
"""What proton says of a transport that ends without a close frame."""


def drain(router: RouterProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command against a router, to its end."""
    full = [*command(), "--drain", "--url", router.url, *arguments]
    return subprocess.run(full, capture_output=True, text=True, timeout=120, check=False)


@contextlib.contextmanager
def draining(router: RouterProcess, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command while it waits."""
    full = [*command(), "--drain", "--url", router.url, *arguments]
    before = router.log.count("draining, ")
    with subprocess.Popen(full, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: router.log.count("draining, ") > before)
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def state_of(router: RouterProcess) -> tuple[bool, str, int]:
    with ManagementClient(router.url) as client:
        row = client.read("router")
    return row["draining"], row["drainStatus"], row["unsettledDeliveries"]


def test_an_idle_router(router: RouterProcess) -> None:
    done = drain(router)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert state_of(router) == (True, "drained", 0)
    assert drain(router).returncode == 0, "it is drained already"
    assert router.stop() == 0


def test_nobody_is_there() -> None:
    done = subprocess.run(
        [*command(), "--drain", "--url", f"amqp://127.0.0.1:{free_port()}"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("waymesh-router: drain: ")
    assert "Traceback" not in done.stderr


def test_it_waits_for_what_is_unsettled(router: RouterProcess) -> None:
    with Client(router.url) as consumer, Client(router.url) as producer:
        receiver = consumer.receiver("orders", credit=10)
        sender = producer.sender("orders")
        sent = sender.send("one")
        received = receiver.next()
        with draining(router) as process:
            wait_until(lambda: sender.credit == 0)
            assert state_of(router) == (True, "draining", 1)
            assert process.poll() is None
            received.accept()
            assert sent.outcome() == "accepted"
            assert process.wait(120) == 0
        for client in (consumer, producer):
            assert client.wait_ended() == NO_CLOSE
    assert state_of(router) == (True, "drained", 0)


def test_time_is_up(router: RouterProcess) -> None:
    with Client(router.url) as consumer, Client(router.url) as producer:
        receiver = consumer.receiver("orders", credit=10)
        sent = producer.sender("orders").send("one")
        receiver.next()
        assert drain(router, "--timeout", "1").returncode == 0
        assert consumer.wait_ended() == NO_CLOSE
        assert not sent.settled.is_set() or sent.state == "modified"
    assert "time is up, 1 deliveries of clients" in router.log


def test_new_clients_are_sent_away_and_managers_are_not(router: RouterProcess) -> None:
    with Client(router.url) as old:
        receiver = old.receiver("orders", credit=1)
        old.sender("orders").send("one")
        kept = receiver.next()
        with draining(router):
            assert old.receiver("other").wait_detached() == "amqp:not-allowed: router is draining"
            with Client(router.url) as new:
                new.receiver("orders", wait=False)
                assert new.wait_ended() == NO_CLOSE
            assert state_of(router)[:2] == (True, "draining")
            kept.accept()
    with Client(router.url) as late:
        late.sender("orders", wait=False)
        assert late.wait_ended() == NO_CLOSE


def test_a_connection_that_opens_at_the_end_of_the_drain_is_not_cut(router: RouterProcess) -> None:
    """It may be a manager's, whose links come later; another client's is closed at its first link."""
    with Client(router.url) as old:
        receiver = old.receiver("orders", credit=1)
        old.sender("orders").send("one")
        kept = receiver.next()
        with draining(router) as process, Client(router.url) as new:
            kept.accept()
            assert process.wait(120) == 0
            assert new.sender("$management").wait_credit() > 0
            new.receiver("orders", wait=False)
            assert new.wait_ended() == NO_CLOSE


def test_readiness_and_cancelling(start_router: StartRouter) -> None:
    port = free_port()
    router = start_router("A", section("listener", name="http", host="127.0.0.1", port=port, http=True))
    with Client(router.url) as client, ManagementClient(router.url) as manager:
        receiver = client.receiver("orders", credit=5)
        sender = client.sender("orders")
        sender.send("one")
        manager.update({"draining": True, "drainTimeoutSeconds": 600}, "router")
        assert ready(port) == (503, b"router is draining\n")
        wait_until(lambda: sender.credit == 0)
        row = manager.update({"draining": False}, "router")
        assert (row["drainStatus"], row["drainTimeoutSeconds"]) == ("none", 600)
        assert ready(port) == (200, b"OK\n")
        second = sender.send("two")
        for received in receiver.take(2):
            assert received.body in ("one", "two")
        assert second.outcome() == "accepted"


def ready(port: int) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", "/readyz")
    response = connection.getresponse()
    return response.status, response.read()


def test_wrong_values(router: RouterProcess) -> None:
    with ManagementClient(router.url) as manager:
        for wish in ({"draining": "perhaps"}, {"drainTimeoutSeconds": -1}, {"drainStatus": "drained"}):
            with pytest.raises(ManagementError) as raised:
                manager.update(wish, "router")
            assert raised.value.status == 400
        assert manager.read("router")["drainStatus"] == "none"


class Mover:
    """A consumer that goes to the next router when its own sends it away, and keeps what it got."""

    def __init__(self, routers: list[RouterProcess]) -> None:
        self.routers = routers
        self.bodies: list[int] = []
        self.moves = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for router in self.routers:
            with Client(router.url) as client:
                receiver = client.receiver("orders", credit=50)
                while not (self._stop.is_set() or client.ended.is_set()):
                    self._take(receiver)
            if self._stop.is_set():
                return
            self.moves += 1

    def _take(self, receiver: Receiver) -> None:
        if receiver.arrived.empty():
            self._stop.wait(0.005)
            return
        received = receiver.next()
        self.bodies.append(int(received.body))
        received.accept()
        receiver.flow(1)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


def test_nothing_is_lost_or_doubled_when_a_router_of_a_mesh_goes(start_mesh: StartMesh) -> None:
    mesh = start_mesh(3, "full")
    a, b, c = mesh.routers
    consumers = [Mover([c, a]), Mover([c, b])]
    try:
        wait_address(a, "orders", remote=1)
        with Client(a.url) as client:
            sender = client.sender("orders")
            accepted: list[int] = []
            with draining(c) as process:
                for number in range(400):
                    while (sent := sender.send(number)).outcome() == "released":
                        continue
                    assert sent.state == "accepted"
                    accepted.append(number)
                assert process.wait(120) == 0
            assert c.stop() == 0
            mesh.wait_converged("AB")
            assert sender.send(400).outcome() == "accepted"
    finally:
        for consumer in consumers:
            consumer.close()
    assert sorted(consumers[0].bodies + consumers[1].bodies) == [*accepted, 400]
    assert [consumer.moves for consumer in consumers] == [1, 1]


def test_a_server_answers_what_it_was_asked_before(router: RouterProcess) -> None:
    with Client(router.url) as server, Client(router.url) as caller:
        requests = server.receiver("service", credit=5)
        answers = server.sender(None)
        replies = caller.receiver(None, dynamic=True, credit=5)
        caller.sender("service").send(proton.Message(body="question", reply_to=replies.address))
        request = requests.next()
        with draining(router) as process:
            wait_until(lambda: state_of(router)[1] == "draining")
            answers.send(proton.Message(body="answer", address=request.message.reply_to))
            received = replies.next()
            assert received.body == "answer"
            received.accept()
            request.accept()
            assert process.wait(120) == 0
        assert server.wait_ended() == NO_CLOSE


def test_sigterm_while_draining(router: RouterProcess, tmp_path: Path) -> None:
    with Client(router.url) as consumer:
        receiver = consumer.receiver("orders", credit=10)
        consumer.sender("orders").send("one")
        receiver.next()
        with draining(router) as process:
            assert router.stop() == 0
            assert process.wait(120) == 1
        assert consumer.wait_ended() == NO_CLOSE
