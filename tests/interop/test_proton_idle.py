"""Heartbeats and idle time-outs, both ways. Spec: 2.4.5."""

from __future__ import annotations

import time

import pytest

from tests.interop.raw_client import AMQP, Ended, RawClient
from tests.interop.shared import fresh
from tests.kit.clients import Client
from tests.kit.fixtures import StartRouter
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

EMPTY = b"\x00\x00\x00\x08\x02\x00\x00\x00"
TRIES = 6


def with_listener(start_router: StartRouter, **attributes: object) -> tuple[RouterProcess, int]:
    """A router, and the port of a further listener with these attributes."""
    port = free_port()
    router = start_router(extra=section("listener", name="further", host="127.0.0.1", port=port, **attributes))
    router.ports.append(port)
    router.wait_listening()
    return router, port


def test_time_out_is_told_as_half_of_what_is_kept(start_router: StartRouter) -> None:
    router, port = with_listener(start_router, idleTimeoutSeconds=40)
    with RawClient(port) as raw:
        assert raw.open().idle_time_out == 20_000
    with RawClient(router.port) as raw:
        assert raw.open().idle_time_out == 8_000


def test_no_time_out_is_not_told(start_router: StartRouter) -> None:
    _, port = with_listener(start_router, idleTimeoutSeconds=0)
    with RawClient(port) as raw:
        assert not raw.open().idle_time_out


def test_silent_client_is_closed(start_router: StartRouter) -> None:
    _, port = with_listener(start_router, idleTimeoutSeconds=1)
    with RawClient(port) as raw:
        began = time.monotonic()
        raw.open()
        assert raw.close_error() == ("amqp:resource-limit-exceeded", "local-idle-timeout expired")
        assert time.monotonic() - began >= 0.9


def test_client_with_heartbeats_stays(start_router: StartRouter) -> None:
    """proton sends empty frames on its own, four in the time that the router waits: some may be late."""
    _, port = with_listener(start_router, idleTimeoutSeconds=10)
    with Client(f"amqp://127.0.0.1:{port}") as client:
        receiver, sender = client.receiver(address := fresh(), 10), client.sender(address)
        end = time.monotonic() + 11.0
        wait_until(lambda: time.monotonic() > end, what="time to go by")
        assert not client.ended.is_set()
        sender.send("still here")
        assert receiver.next().body == "still here"


def test_router_sends_heartbeats_to_a_client_that_asks(router1: RouterProcess) -> None:
    """In time, but for those that come late because the machine does something else: two in succession must not."""
    with RawClient(router1.port) as raw:
        raw.open(idle_time_out=6000)
        in_time = 0
        for _ in range(TRIES):
            began = time.monotonic()
            assert raw.read(8) == EMPTY
            in_time = in_time + 1 if time.monotonic() - began < 6.0 else 0
            if in_time == 2:
                return
    pytest.fail(f"of {TRIES} heartbeats no two in succession were in time")


def test_router_sends_none_to_a_client_that_does_not_ask(router1: RouterProcess) -> None:
    with RawClient(router1.port) as raw:
        raw.open()
        raw.begin()
        raw.attach_receiver(fresh())
        assert raw.waiting(1.0) == b""


def test_handshake_has_to_be_done_in_time(start_router: StartRouter) -> None:
    _, port = with_listener(start_router, initialHandshakeTimeoutSeconds=1)
    with RawClient(port) as silent, RawClient(port) as stopping:
        stopping.send(AMQP)
        assert silent.read_to_end() == b""
        stopping.read_to_end()


def test_client_that_does_not_answer_close_is_let_go(router1: RouterProcess) -> None:
    """The router's close stays without an answer: the transport is closed all the same."""
    with RawClient(router1.port) as raw:
        raw.open()
        raw.send(EMPTY[:3] + b"\x01" + EMPTY[4:])
        with pytest.raises(Ended):
            raw.read(2**20)
