"""Octets behind the last field of an open, begin or attach are dropped: python-proton writes its properties twice if it
opens an endpoint twice. Spec: 2.7.1 to 2.7.3"""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.frames import AMQP
from tests.kit.pump import Hub, Peer
from tests.kit.recorder import Recorder
from tests.spec.test_spec_link_routes import Pair
from waymesh_amqp.performatives import Attach, Close
from waymesh_amqp.types import Symbol, encode

PROPERTIES = {Symbol("product"): "proton"}
SURPLUS = encode(PROPERTIES)


def with_surplus(frame: bytes, surplus: bytes = SURPLUS) -> bytes:
    """The frame with further octets in its list, which the count does not include."""
    assert frame[11] == 0xC0
    size, count, fields = frame[12], frame[13], frame[14:]
    long_list = b"\xd0" + (size + 3 + len(surplus)).to_bytes(4, "big") + count.to_bytes(4, "big")
    return frames.raw_frame(frame[8:11] + long_list + fields + surplus, int.from_bytes(frame[6:8], "big"))


@pytest.mark.parametrize("surplus", [SURPLUS, b"\xff", b"\x00" * 300], ids=["properties", "garbage", "long"])
def test_a_broker_keeps_its_connection(surplus: bytes) -> None:
    pair = Pair()
    pair.client.send(frames.attach_receiver("in"))
    pair.broker.take()
    answer = with_surplus(frames.attach_sender("client.in", properties=PROPERTIES), surplus)
    pair.broker.send(with_surplus(frames.begin(remote_channel=0), surplus), answer)
    assert pair.broker.conn.error is None
    pair.hub.turn()
    written = pair.client.end.written
    (attach,) = [p for p in pair.client.take() if isinstance(p, Attach)]
    assert attach.properties == PROPERTIES
    assert written.count(SURPLUS) == 1
    assert surplus == SURPLUS or surplus not in written


def test_a_client_s_attach_reaches_the_broker_without_them() -> None:
    pair = Pair()
    pair.client.end.feed(with_surplus(frames.attach_receiver("in", properties=PROPERTIES)))
    pair.hub.turn()
    written = pair.broker.end.written
    (attach,) = [p for p in pair.broker.take() if isinstance(p, Attach)]
    assert attach.properties == PROPERTIES
    assert written.count(SURPLUS) == 1


def test_an_open(chunk: int) -> None:
    peer = Hub(Recorder(), chunk).peer()
    peer.send(AMQP, with_surplus(frames.open_(properties=PROPERTIES)), with_surplus(frames.begin()))
    assert peer.conn.remote.properties == PROPERTIES
    assert peer.conn.error is None
    assert peer.session().links == []


@pytest.mark.parametrize("frame", [frames.detach(closed=True), frames.end(), frames.close()])
def test_in_other_frames_they_are_an_error(mapped: Peer, frame: bytes) -> None:
    mapped.send(frames.attach_sender())
    if frame[11] == 0x45:
        frame = frames.raw_frame(frame[8:11] + b"\xc0\x01\x00")
    answers = mapped.send(with_surplus(frame))
    assert isinstance(answers[-1], Close)
    assert answers[-1].error is not None
    assert answers[-1].error.condition == "amqp:decode-error"
