"""Consumers and brokers whose attach has a `max-message-size`: no larger message ends their link."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import proton
import proton.reactor
import pytest

from tests.interop.shared import fresh, wait_consumers
from tests.kit.clients import Client
from tests.kit.mesh import Mesh
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section, standalone

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

MOST = 5_000
LARGE = [MOST, 2_000_000]
"""Known to be too long with the first frame, or found to be so while it streams."""


class Maximum(proton.reactor.LinkOption):
    """Of a receiver that takes messages up to MOST."""

    def apply(self, link: proton.Link) -> None:
        link.max_message_size = MOST


def bodies(taken: list[Any]) -> list[int]:
    return [len(received.body) for received in taken]


@pytest.mark.parametrize("at", ["A", "B"], ids=["at the same router", "at another router"])
@pytest.mark.parametrize("large", LARGE)
def test_a_message_that_is_too_long_is_rejected_and_the_link_stays(line2: Mesh, at: str, large: int) -> None:
    address = fresh()
    with Client(line2[at].url) as receiving, Client(line2["A"].url) as sending:
        receiver = receiving.receiver(address, 10, options=[Maximum()])
        wait_consumers(line2["A"], address, int(at == "A"), int(at == "B"))
        sender = sending.sender(address)
        poison = sender.send(proton.Message(body=b"x" * large))
        good = sender.send(proton.Message(body=b"x" * 100))
        assert bodies(receiver.take(1)) == [100]
        assert (poison.outcome(), good.outcome()) == ("rejected", "accepted")
        assert (poison.condition or "").startswith("amqp:link:message-size-exceeded: ")
        assert not receiver.detached.is_set()


def test_another_consumer_gets_what_one_does_not_take(line2: Mesh) -> None:
    address = fresh()
    with Client(line2["A"].url) as receiving, Client(line2["A"].url) as sending:
        small = receiving.receiver(address, 100, options=[Maximum()])
        large = receiving.receiver(address, 100, name="large")
        sender = sending.sender(address)
        sent = [sender.send(proton.Message(body=b"x" * (MOST + 1))) for _ in range(10)]
        assert bodies(large.take(10)) == [MOST + 1] * 10
        assert [one.outcome() for one in sent] == ["accepted"] * 10
        assert small.arrived.empty()


@pytest.mark.parametrize("large", LARGE)
@pytest.mark.parametrize("presettled", [False, True])
def test_other_consumers_of_a_multicast_get_theirs(line2: Mesh, large: int, presettled: bool) -> None:
    address = fresh("multicast")
    with Client(line2["A"].url) as receiving, Client(line2["B"].url) as other, Client(line2["A"].url) as sending:
        small = receiving.receiver(address, 10, options=[Maximum()])
        takers = [receiving.receiver(address, 10, name="large"), other.receiver(address, 10)]
        wait_consumers(line2["A"], address, 2, 1)
        sender = sending.sender(address, presettled=presettled)
        poison = sender.send(proton.Message(body=b"x" * large))
        good = sender.send(proton.Message(body=b"x" * 100))
        assert [bodies(taker.take(2)) for taker in takers] == [[large, 100]] * 2
        assert bodies(small.take(1)) == [100]
        if not presettled:
            assert (poison.outcome(), good.outcome()) == ("rejected", "accepted")


@pytest.mark.parametrize("large", LARGE)
def test_a_broker_with_a_maximum_keeps_its_autolink(tmp_path: Path, large: int) -> None:
    """The broker is a router whose policy has a maximum: it would close the connection for a larger message."""
    port = free_port()
    limits = section("router", id="BR") + section("policy", maxMessageSize=MOST)
    broker = RouterProcess(tmp_path, "BR", limits + section("listener", host="127.0.0.1", port=port), [port])
    extra = section("connector", name="broker", host="127.0.0.1", port=port, role="route-container")
    extra += section("autoLink", address="jobs", direction="out", connection="broker")
    router = standalone(tmp_path, "A", extra)
    try:
        broker.start()
        router.start()
        with Client(broker.url) as receiving, Client(router.url) as sending:
            receiver = receiving.receiver("jobs", 10)
            sender = sending.sender("jobs")
            sent = [sender.send(proton.Message(body=b"x" * size)) for size in (10, large, 100)]
            assert bodies(receiver.take(2)) == [10, 100]
            assert [one.outcome() for one in sent] == ["accepted", "rejected", "accepted"]
        assert router.log.count("autolink out jobs at broker:") == 2, "inactive, attaching, active"
    finally:
        router.stop()
        broker.stop()
