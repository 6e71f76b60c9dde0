"""Random frames: the engine neither raises nor affects other connections. Spec: 2.4.6 and all others"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit import frames
from tests.kit.frames import AMQP, EMPTY, SASL
from tests.kit.pump import CHUNKS, Hub, Peer, core_hub
from waymesh_amqp.outcomes import ACCEPTED, RELEASED, received, rejected
from waymesh_amqp.performatives import Terminus, Transfer
from waymesh_amqp.types import Described, Symbol, ULong

small = st.integers(0, 3)
serial = st.sampled_from([0, 1, 2, 5, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF])
maybe = st.none() | serial
flag = st.booleans()
state = st.sampled_from(
    [
        None,
        ACCEPTED,
        RELEASED,
        rejected(),
        received(1, 2),
        Described(Symbol("x:y"), [1]),
        Described(ULong(0x34), [b"t"]),
    ]
)
address = st.sampled_from(["q", "q", "m", "", None, "_local/x", "_topo/0/R/y", "_topo/0/Z/y", "amqp:/q"])
role = st.booleans()


@st.composite
def attaches(draw: Any) -> bytes:
    over: dict[str, Any] = {
        "snd_settle_mode": draw(st.none() | st.integers(0, 2)),
        "rcv_settle_mode": draw(st.none() | st.integers(0, 1)),
        "unsettled": draw(st.sampled_from([None, None, None, {}, {b"t": ACCEPTED}])),
        "max_message_size": draw(st.none() | serial),
    }
    dynamic = draw(st.sampled_from([False, False, True]))
    name, handle, channel = f"l{draw(small)}", draw(small), draw(st.sampled_from([0, 0, 0, 1]))
    if draw(role):
        over["source"] = draw(st.sampled_from([None, Terminus("source", address=draw(address), dynamic=dynamic)]))
        return frames.attach_receiver(name, handle, channel=channel, **over)
    over["target"] = draw(st.sampled_from([None, Terminus("target", address=draw(address)), Terminus("coordinator")]))
    over["initial_delivery_count"] = draw(maybe)
    return frames.attach_sender(name, handle, channel=channel, **over)


@st.composite
def flows(draw: Any) -> bytes:
    fields = {name: draw(maybe) for name in ("next_incoming_id", "delivery_count", "link_credit", "available")}
    fields["handle"] = draw(st.none() | small)
    if fields["handle"] is None:
        fields = {"next_incoming_id": fields["next_incoming_id"]}
    return frames.flow(
        draw(st.sampled_from([0, 0, 1])), incoming_window=draw(serial), drain=draw(flag), echo=draw(flag), **fields
    )


@st.composite
def transfers(draw: Any) -> bytes:
    payload = draw(
        st.sampled_from([b"", frames.message(), b"\x00\x53\x70\x45", b"\x00\x53\x72\xc1\x01\x00", b"\xff" * 30])
    )
    return frames.transfer(
        draw(st.none() | st.integers(0, 6)),
        payload,
        channel=draw(st.sampled_from([0, 0, 0, 1])),
        handle=draw(small),
        delivery_tag=draw(st.sampled_from([b"t", b"t", None, b"x" * 33])),
        settled=draw(st.none() | flag),
        more=draw(flag),
        aborted=draw(st.sampled_from([False, False, True])),
        resume=draw(st.sampled_from([False, False, False, True])),
        message_format=draw(maybe),
        state=draw(state),
    )


@st.composite
def dispositions(draw: Any) -> bytes:
    return frames.disposition(draw(serial), role=draw(role), last=draw(maybe), settled=draw(flag), state=draw(state))


begins = st.builds(
    lambda channel, answered, window, handles: frames.begin(
        channel, remote_channel=answered, incoming_window=window, handle_max=handles
    ),
    st.sampled_from([0, 1, 40000]),
    st.none() | st.integers(0, 1),
    serial,
    maybe,
)
ends = st.builds(frames.end, st.integers(0, 1))
detaches = st.builds(lambda handle, closed: frames.detach(handle, closed=closed), small, flag)
odd = st.sampled_from([EMPTY, AMQP, SASL, frames.open_(), frames.close(), b"\x00" * 8, b"\xff" * 8])
likely = attaches() | attaches() | flows() | transfers() | transfers() | dispositions() | detaches
sequences = st.lists(likely | begins | ends | odd | st.binary(max_size=12), max_size=25)


def bystanders(core: Hub) -> tuple[Peer, Peer]:
    """A healthy consumer and producer of `healthy` on the same core."""
    consumer = core.peer().open().begin()
    consumer.send(frames.attach_receiver(address="healthy"), frames.credit(100))
    producer = core.peer().open().begin()
    producer.send(frames.attach_sender(address="healthy"))
    return consumer, producer


def check_bystanders(consumer: Peer, producer: Peer) -> None:
    producer.send(frames.transfer(0, frames.message(b"still well")))
    (got,) = [f for f in consumer.frames() if isinstance(f, frames.Seen)]
    assert isinstance(got.performative, Transfer)
    assert got.payload == frames.message(b"still well")
    assert consumer.send(frames.disposition(0)) == []
    assert producer.take()[-1].state == ACCEPTED


@settings(max_examples=150, deadline=None)
@given(sequences, st.sampled_from(CHUNKS))
def test_random_frames_disturb_nobody(sequence: list[bytes], chunk: int) -> None:
    core = core_hub(chunk)
    consumer, producer = bystanders(core)
    rogue = core.peer().open().begin()
    for data in sequence:
        rogue.send(data)
        core.tick(0.1)
    check_bystanders(consumer, producer)
    rogue.kill()
    core.turn()
    check_bystanders_left_alone(core)


def check_bystanders_left_alone(core: Hub) -> None:
    """Only what the two bystanders need is left."""
    handler: Any = core.handler
    assert set(handler.addresses) == {"M0healthy"}
    assert len(handler.links) == 2
    assert len(handler.connections) == 2


@settings(max_examples=100, deadline=None)
@given(sequences, st.binary(min_size=32, max_size=64))
def test_what_lies_behind_the_given_bytes_is_never_read(sequence: list[bytes], garbage: bytes) -> None:
    """The transport's buffer is shared: what another connection left behind our bytes must not matter."""
    answers = []
    for rest in (b"", garbage, b"\x00" * 64):
        peer = core_hub().peer().open().begin()
        written: list[Any] = []
        for data in sequence:
            if peer.conn.done:
                break
            whole = peer.end.tail + data
            used = peer.conn.receive(memoryview(whole + rest), len(whole))
            peer.end.tail = whole[used:]
            written.append((used, peer.take()))
        answers.append(written)
    assert answers[0] == answers[1] == answers[2]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.binary(max_size=40) | st.sampled_from([AMQP, SASL, frames.open_()]), max_size=6),
    st.sampled_from(CHUNKS),
)
def test_random_bytes_never_raise_and_a_broken_stream_is_done(parts: list[bytes], chunk: int) -> None:
    core = core_hub(chunk)
    peer = core.peer()
    peer.end.feed(b"".join(parts))
    core.turn()
    whole = b"".join(parts)
    if not peer.conn.done:
        assert AMQP.startswith(whole[:8]) or whole.startswith(AMQP)
        assert len(peer.end.tail) < 16384


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_truncated_and_twisted_frames_are_errors_not_exceptions(data: Any) -> None:
    core = core_hub()
    consumer, producer = bystanders(core)
    rogue = core.peer().open().begin()
    rogue.send(frames.attach_sender("s", 0), frames.attach_receiver("r", 1))
    rogue.send(frames.credit(5, 1))
    frame = bytearray(data.draw(likely))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(flag):
        cut = data.draw(st.integers(8, len(frame)))
        frame = frame[:cut]
        frame[:4] = cut.to_bytes(4, "big")
    rogue.send(bytes(frame))
    check_bystanders(consumer, producer)
