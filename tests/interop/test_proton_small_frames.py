"""Clients and brokers with small frames at the ends of link routes: too long frames affect no other link."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from proton.reactor import LinkOption

from tests.interop.raw_client import WINDOW, RawClient
from tests.kit.clients import Client, Receiver
from tests.kit.frames import message
from tests.kit.ports import free_port
from tests.kit.process import section, standalone
from waymesh_amqp.performatives import Attach, Begin, Detach, ErrorInfo, Flow, Terminus, Transfer
from waymesh_amqp.types import Symbol

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

SMALL = 512
LONG = "x" * 600


class LongProperties(LinkOption):
    """A link whose attach needs a frame of more than 512 octets."""

    def apply(self, link: Any) -> None:
        link.properties = {Symbol("product"): LONG}


@dataclass
class Broker:
    """A scripted broker behind the router, with one client that receives from it. `port`: for further clients."""

    raw: RawClient
    client: Client
    receiver: Receiver
    url: str

    def answer(self, channel: int, attach: Attach, source: Terminus | None) -> None:
        """Begin the session in which the router attached, and answer that."""
        self.raw.put(Begin(remote_channel=channel, **_WINDOWS), channel=channel)
        self.raw.put(
            Attach(attach.name, 0, False, source=source, target=attach.target, initial_delivery_count=0),
            channel=channel,
        )

    def still_sends(self) -> None:
        """The one client still gets what the broker sends, over the connection that it always had."""
        self.raw.put(Transfer(0, delivery_id=0, delivery_tag=b"0", message_format=0), message(b"still here"))
        received = self.receiver.next()
        assert bytes(received.body) == b"still here"
        received.accept()
        assert not self.client.ended.is_set()


_WINDOWS: dict[str, Any] = {"next_outgoing_id": 0, "incoming_window": WINDOW, "outgoing_window": WINDOW}


@pytest.fixture
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Broker]:
    """The broker; the test's parameter is the longest frame that it takes."""
    port = free_port()
    container = {"name": "broker", "role": "route-container", "host": "127.0.0.1", "port": port}
    route = section("linkRoute", prefix="q", connection="broker", direction="both")
    router = standalone(tmp_path, extra=section("listener", saslMechanisms="ANONYMOUS", **container) + route)
    router.ports.append(port)
    router.start()
    with RawClient(port) as raw:
        raw.open(container_id="broker", max_frame_size=getattr(request, "param", None))
        with Client(router.url) as client:
            receiver = client.receiver("q", 10, wait=False)
            raw.expect(Begin)
            scripted = Broker(raw, client, receiver, router.url)
            attach = raw.expect(Attach)
            scripted.answer(0, attach, attach.source)
            while not raw.expect(Flow).link_credit:
                pass
            yield scripted
            scripted.still_sends()
    router.stop()


def test_a_long_refusal_for_a_client_of_small_frames(broker: Broker) -> None:
    with Client(broker.url, max_frame_size=SMALL) as small:
        refused = small.receiver("q", wait=False)
        attach = broker.raw.expect(Attach)
        broker.answer(1, attach, None)
        broker.raw.put(Detach(0, closed=True, error=ErrorInfo("amqp:not-found", LONG, {"why": LONG})), channel=1)
        error = refused.wait_detached()
        assert error is not None
        assert error.startswith("amqp:not-found: xxx")
        assert not small.ended.is_set()


def test_a_long_filter_for_a_client_of_small_frames(broker: Broker) -> None:
    with Client(broker.url, max_frame_size=SMALL) as small:
        refused = small.receiver("q", wait=False)
        attach = broker.raw.expect(Attach)
        broker.answer(1, attach, Terminus("source", address="q", filter={Symbol("f"): LONG}))
        error = refused.wait_detached()
        assert error is not None
        assert error.startswith("amqp:frame-size-too-small")
        gone = broker.raw.expect(Detach).error
        assert gone is not None
        assert gone.condition == "amqp:frame-size-too-small"


@pytest.mark.parametrize("broker", [SMALL], indirect=True)
def test_long_link_properties_for_a_broker_of_small_frames(broker: Broker) -> None:
    with Client(broker.url) as client:
        refused = client.receiver("q", wait=False, options=[LongProperties()])
        error = refused.wait_detached()
        assert error is not None
        assert error.startswith("amqp:frame-size-too-small")
        assert not client.ended.is_set()
