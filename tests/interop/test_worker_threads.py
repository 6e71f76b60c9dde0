"""Routers with `workerThreads: 2`: what passes over TLS arrives whole, and a thread of its own has worked for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import proton
import pytest

import waymesh_amqp
from tests.interop.hostile import exchange_message
from tests.interop.raw_client import RawClient
from tests.interop.shared import fresh
from tests.interop.streaming import StreamReceiver, StreamSender, digest
from tests.interop.test_proton_security import client_domain
from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_router.runtime.worker_threads import cores

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

MEBIBYTE = 1024 * 1024
LARGE = 24 * MEBIBYTE + 17
ADDED = 1 if waymesh_amqp.engine() == "compiled" and cores() > 1 else 0
"""Threads that `workerThreads: 2` adds here."""
ENDLESS = 1 << 31
SOME_NS = 1_000_000
"""CPU of a thread that has decrypted and encrypted many megabytes; one that only waits uses less."""


def times(router: RouterProcess) -> list[int]:
    """CPU of each thread that does TLS, in nanoseconds."""
    found = []
    for task in Path(f"/proc/{router.pid}/task").iterdir():
        if (task / "comm").read_text(encoding="ascii").strip() == "tls":
            found.append(int((task / "schedstat").read_text(encoding="ascii").split()[0]))
    return found


class World:
    """A and B, connected over TLS; each has a listener for clients over TLS and one without."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        pair = self.authority.issue("router", {"CN": "localhost"}, hosts=("localhost", "127.0.0.1"))
        mesh = free_port()
        between = {"host": "127.0.0.1", "port": mesh, "role": "inter-router", "sslProfile": "p"}
        ends = {
            "A": section("listener", name="mesh", **between, requireSsl=True, saslMechanisms="ANONYMOUS"),
            "B": section("connector", name="mesh", **between),
        }
        self.routers = [self._router(folder, pair.cert, pair.key, name, end) for name, end in ends.items()]

    def _router(self, folder: Path, cert: Path, key: Path, name: str, end: str) -> RouterProcess:
        ports = [free_port(), free_port()]
        text = section("router", id=name, mode="interior", workerThreads=2)
        files = {"caCertFile": self.authority.cert, "certFile": cert, "privateKeyFile": key}
        text += section("sslProfile", name="p", **files)
        text += section("listener", name="plain", host="127.0.0.1", port=ports[0])
        text += section("listener", name="tls", host="127.0.0.1", port=ports[1], sslProfile="p", requireSsl=True)
        text += section("address", prefix="t", distribution="balanced")
        return RouterProcess(folder, name, text + end, ports)

    def client(self, number: int) -> Client:
        """A client over TLS, of A or B."""
        url = f"amqps://localhost:{self.routers[number].ports[1]}"
        return Client(url, ssl_domain=client_domain(self.authority), allowed_mechs="ANONYMOUS")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    try:
        for router in world.routers:
            router.launch()
        for router in world.routers:
            router.wait_listening()
        yield world
    finally:
        for router in world.routers:
            assert router.stop() == 0, router.log_tail()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes the clients of a test."""
    with ExitStack() as stack:
        yield stack


def stream(world: World, stack: ExitStack, sender_at: int, receiver_at: int) -> None:
    """A message of LARGE octets passes, and arrives as it was sent."""
    address = fresh()
    receiver = StreamReceiver(stack.enter_context(world.client(receiver_at)), address)
    sender = StreamSender(stack.enter_context(world.client(sender_at)), address, LARGE)
    receiver.wait_complete()
    sender.wait_accepted()
    assert receiver.digest == digest(LARGE)


@pytest.mark.parametrize(("sender_at", "receiver_at"), [(0, 0), (0, 1), (1, 0)])
def test_large_messages_arrive_whole(world: World, stack: ExitStack, sender_at: int, receiver_at: int) -> None:
    stream(world, stack, sender_at, receiver_at)
    for at in {sender_at, receiver_at}:
        used = times(world.routers[at])
        assert len(used) == ADDED
        assert all(ns > SOME_NS for ns in used)


def test_many_messages_of_many_clients_arrive_in_order(world: World, stack: ExitStack) -> None:
    pairs = []
    for number in range(4):
        address = fresh()
        receiver = stack.enter_context(world.client(number % 2)).receiver(address, 500)
        pairs.append((stack.enter_context(world.client(0)).sender(address), receiver))
    bodies = [bytes([number]) * size for number, size in enumerate((10, 20_000, 300_000, 1, 70_000) * 8)]
    sent = [sender.send_all([proton.Message(body=body) for body in bodies]) for sender, _ in pairs]
    for _, receiver in pairs:
        assert [bytes(received.body) for received in receiver.take(len(bodies))] == bodies
    for each in sent:
        assert [one.outcome() for one in each] == ["accepted"] * len(bodies)


def test_a_client_that_is_killed_in_a_large_message_harms_nobody(world: World, stack: ExitStack) -> None:
    address = fresh()
    receiver = StreamReceiver(stack.enter_context(world.client(1)), address)
    with world.client(0) as client:
        sender = StreamSender(client, address, ENDLESS)
        wait_until(lambda: receiver.taken > 4 * MEBIBYTE, what="some of the message")
    wait_until(lambda: receiver.aborted, what="the end of the delivery")
    assert sender.state is None
    stream(world, stack, 0, 1)
    exchange_message(world.routers[0].port)


def test_connections_end_in_order_when_the_router_stops(world: World, stack: ExitStack) -> None:
    address = fresh()
    receiver = StreamReceiver(stack.enter_context(world.client(0)), address, open_=False)
    StreamSender(stack.enter_context(world.client(0)), address, ENDLESS)
    wait_until(lambda: sum(times(world.routers[0])) > SOME_NS or not ADDED, what="the work of the thread")
    assert world.routers[0].stop() == 0
    assert "internal error" not in world.routers[0].log
    wait_until(receiver.client.ended.is_set, what="the end of the client's connection")


def test_what_has_no_effect_is_a_warning(tmp_path: Path) -> None:
    port = free_port()
    text = section("router", id="A", mode="standalone", workerThreads=9000)
    router = RouterProcess(tmp_path, "A", text + section("listener", host="127.0.0.1", port=port), [port])
    router.start()
    with RawClient(port) as client:
        client.open()
    assert router.stop() == 0
    if ADDED:
        assert f"router workerThreads: 9000: only {cores()} have an effect" in router.log
    else:
        assert "router workerThreads: 9000: has no effect: " in router.log
