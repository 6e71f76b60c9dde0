"""Transfers: fragments, aborts, tags, limits, and what a consumer sees of them. Spec: 2.6.12, 2.6.14, 2.7.5"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer
from tests.kit.recorder import Recorder
from waymesh_amqp.outcomes import ACCEPTED
from waymesh_amqp.performatives import Detach, Disposition, End, Flow, Transfer


def linked(mapped: Peer) -> Peer:
    mapped.send(frames.attach_sender())
    return mapped


def arrived(peer: Peer) -> list[Any]:
    return list(peer.handler.named("transfer"))


def condition(answers: list[Any]) -> str:
    assert answers, "no answer"
    return str(answers[-1].error.condition)


def deliveries(peer: Peer) -> list[bytes]:
    """The whole payloads that a peer was sent; "aborted" for one that was."""
    found: list[bytes] = []
    parts: list[bytes] = []
    for f in peer.frames():
        if isinstance(f, frames.Seen) and isinstance(f.performative, Transfer):
            assert (f.performative.delivery_id is not None) == (not parts), "delivery-id belongs to the first frame"
            parts.append(f.payload)
            if f.performative.aborted:
                found.append(b"aborted")
                parts = []
            elif not f.performative.more:
                found.append(b"".join(parts))
                parts = []
    assert not parts, "a delivery without its end"
    return found


def pair(core: Hub, credit: int = 10, **over: Any) -> tuple[Peer, Peer]:
    consumer = core.peer().open(**over).begin()
    consumer.send(frames.attach_receiver(), frames.credit(credit))
    producer = core.peer().open().begin()
    producer.send(frames.attach_sender())
    return consumer, producer


def test_2_7_5_one_frame_delivery(mapped: Peer) -> None:
    linked(mapped).send(frames.transfer(7, b"abc", message_format=3))
    assert arrived(mapped) == [(7, True, False, False, b"abc")]
    assert mapped.handler.links[0].transfer_format == 3


def test_2_7_5_all_fields_given(mapped: Peer) -> None:
    data = frames.transfer(
        7,
        b"abc",
        settled=True,
        more=False,
        rcv_settle_mode=1,
        state=ACCEPTED,
        resume=False,
        aborted=False,
        batchable=True,
    )
    linked(mapped).send(data)
    assert arrived(mapped) == [(7, True, True, False, b"abc")]


def test_2_7_5_empty_payload(mapped: Peer) -> None:
    linked(mapped).send(frames.transfer(7, b""))
    assert arrived(mapped) == [(7, True, False, False, b"")]


def test_2_6_14_delivery_of_several_frames(mapped: Peer) -> None:
    linked(mapped).send(
        frames.transfer(1, b"a", more=True), frames.transfer(None, b"b", more=True), frames.transfer(None, b"c")
    )
    assert arrived(mapped) == [
        (1, True, False, True, b"a"),
        (1, False, False, True, b"b"),
        (1, False, False, False, b"c"),
    ]
    assert mapped.handler.links[0].credit == 9


def test_2_7_5_later_frames_may_repeat_the_delivery_id(mapped: Peer) -> None:
    linked(mapped).send(frames.transfer(1, b"a", more=True), frames.transfer(1, b"b"))
    assert [t[4] for t in arrived(mapped)] == [b"a", b"b"]


def test_2_7_5_another_delivery_id_inside_a_delivery_is_an_error(mapped: Peer) -> None:
    answers = linked(mapped).send(frames.transfer(1, b"a", more=True), frames.transfer(2, b"b"))
    assert isinstance(answers[-1], Detach)
    assert condition(answers) == "amqp:invalid-field"


def test_2_6_14_deliveries_of_two_links_interleave(mapped: Peer) -> None:
    linked(mapped).send(frames.attach_sender("two", 1))
    mapped.send(
        frames.transfer(1, b"a", more=True),
        frames.transfer(2, b"x", handle=1, more=True),
        frames.transfer(None, b"b"),
        frames.transfer(None, b"y", handle=1),
    )
    assert [(t[0], t[4]) for t in arrived(mapped)] == [(1, b"a"), (2, b"x"), (1, b"b"), (2, b"y")]


def test_2_7_5_settled_on_a_later_frame(mapped: Peer) -> None:
    linked(mapped).send(frames.transfer(1, b"a", more=True), frames.transfer(None, b"b", settled=True))
    assert [t[2] for t in arrived(mapped)] == [False, True]


def test_2_7_5_settled_holds_for_the_frames_behind(mapped: Peer) -> None:
    linked(mapped).send(frames.transfer(1, b"a", settled=True, more=True), frames.transfer(None, b"b"))
    assert [t[2] for t in arrived(mapped)] == [True, True]


# ---- aborts
def test_2_7_5_aborted_delivery_is_discarded_with_its_payload(mapped: Peer) -> None:
    linked(mapped).send(frames.transfer(1, b"a", more=True), frames.transfer(None, b"ignored", aborted=True))
    assert arrived(mapped) == [(1, True, False, True, b"a")]
    assert mapped.handler.named("abort") == [(1,)]
    mapped.send(frames.transfer(2, b"next"))
    assert arrived(mapped)[-1] == (2, True, False, False, b"next")


def test_2_7_5_aborted_in_its_first_frame(mapped: Peer) -> None:
    linked(mapped).send(frames.transfer(1, b"a", aborted=True), frames.transfer(2, b"b"))
    assert mapped.handler.named("abort") == [(1,)]
    assert [t[0] for t in arrived(mapped)] == [2]


def test_2_7_5_abort_counts_as_the_last_frame_whatever_more_says(mapped: Peer) -> None:
    linked(mapped).send(frames.transfer(1, b"a", more=True), frames.transfer(None, b"", more=True, aborted=True))
    mapped.send(frames.transfer(2, b"b"))
    assert arrived(mapped)[-1][:2] == (2, True)


# ---- fields of the first frame
@pytest.mark.parametrize(
    "over",
    [
        {"delivery_id": None},
        {"delivery_tag": None},
        {"delivery_tag": None, "settled": True},
    ],
    ids=["no id", "no tag", "null tag"],
)
def test_2_7_5_first_frame_needs_id_and_tag(mapped: Peer, over: dict[str, Any]) -> None:
    answers = linked(mapped).send(frames.transfer(**{"delivery_id": 1, **over}))
    assert isinstance(answers[-1], Detach)
    assert condition(answers) == "amqp:invalid-field"
    assert arrived(mapped) == []


def test_2_7_5_a_tag_of_over_32_octets_is_the_handlers_to_judge(mapped: Peer) -> None:
    linked(mapped).send(frames.transfer(delivery_id=1, delivery_tag=b"x" * 33))
    assert len(arrived(mapped)) == 1


@pytest.mark.parametrize("tag", [b"", b"x", b"x" * 32])
def test_2_8_7_tags_of_up_to_32_octets(mapped: Peer, tag: bytes) -> None:
    linked(mapped).send(frames.transfer(1, delivery_tag=tag))
    assert len(arrived(mapped)) == 1


def test_2_6_13_resumed_delivery_is_refused(mapped: Peer) -> None:
    answers = linked(mapped).send(frames.transfer(1, resume=True))
    assert isinstance(answers[-1], Detach)
    assert condition(answers) == "amqp:not-implemented"


def test_2_6_1_transfer_from_the_receiver_of_a_link(mapped: Peer) -> None:
    mapped.send(frames.attach_receiver("r", 0))
    answers = mapped.send(frames.transfer(1))
    assert isinstance(answers[-1], Detach)
    assert condition(answers) == "amqp:not-allowed"


@pytest.mark.parametrize("sizes", [(101,), (60, 41), (40, 40, 21)])
def test_2_7_3_message_over_max_message_size(chunk: int, sizes: tuple[int, ...]) -> None:
    peer = Hub(Recorder(max_message_size=100), chunk).peer().open().begin()
    (attach, _) = peer.send(frames.attach_sender())
    assert attach.max_message_size == 100
    for i, size in enumerate(sizes):
        answers = peer.send(frames.transfer(1 if i == 0 else None, b"x" * size, more=i < len(sizes) - 1))
    assert condition(answers) == "amqp:link:message-size-exceeded"


def test_2_7_3_message_of_exactly_max_message_size(chunk: int) -> None:
    peer = Hub(Recorder(max_message_size=100), chunk).peer().open().begin()
    peer.send(frames.attach_sender())
    for i in range(3):
        assert peer.send(frames.transfer(i, b"x" * 60, more=True), frames.transfer(None, b"x" * 40)) == []


@pytest.mark.parametrize(
    "fields",
    [
        b"\x45",
        b"\xc0\x01\x00",
        b"\xc0\x02\x01\xa0",
        b"\xc0\x00\x05",
        b"\xd0\x00\x00\x00\x03\x00\x00\x00\x01",
        b"\x70\x00\x00\x00\x00",
    ],
    ids=["list0", "no fields", "truncated", "size 0", "size 3 of a list32", "not a list"],
)
def test_transfer_that_cannot_be_read_closes_the_connection(mapped: Peer, fields: bytes) -> None:
    answers = linked(mapped).send(frames.raw_frame(b"\x00\x53\x14" + fields + frames.message()))
    assert condition(answers) == "amqp:decode-error"
    assert mapped.conn.done


def test_fields_are_not_read_past_the_end_of_their_list(mapped: Peer) -> None:
    """A count of six, but the list ends behind the first field: what follows is payload."""
    body = b"\x00\x53\x14\xc0\x02\x06\x43" + b"\x43\xa0\x01x\x43\x41\x42"
    assert condition(linked(mapped).send(frames.raw_frame(body))) == "amqp:decode-error"
    assert arrived(mapped) == []


# ---- descriptors in their other encodings. Spec: 1.3.1
@pytest.mark.parametrize(
    "descriptor", [b"\xa3\x12amqp:transfer:list", b"\x80" + b"\x00" * 7 + b"\x14"], ids=["symbol", "ulong"]
)
def test_1_3_odd_descriptor_of_a_transfer(mapped: Peer, descriptor: bytes) -> None:
    usual = frames.transfer(5, b"payload", settled=True)[8:]
    linked(mapped).send(frames.raw_frame(b"\x00" + descriptor + usual[3:]))
    assert arrived(mapped) == [(5, True, True, False, b"payload")]


def test_1_3_odd_descriptor_of_a_flow(mapped: Peer) -> None:
    usual = frames.flow(echo=True)[8:]
    (answer,) = mapped.send(frames.raw_frame(b"\x00\xa3\x0eamqp:flow:list" + usual[3:]))
    assert isinstance(answer, Flow)


def test_1_3_odd_descriptor_of_a_disposition(core: Hub) -> None:
    consumer, producer = pair(core)
    producer.send(frames.transfer(0))
    usual = frames.disposition(0)[8:]
    consumer.send(frames.raw_frame(b"\x00\x80" + b"\x00" * 7 + b"\x15" + usual[3:]))
    (answer,) = producer.take()
    assert isinstance(answer, Disposition)
    assert answer.state == ACCEPTED


# ---- on the way through a router
def test_fragments_reach_the_consumer_as_they_come(core: Hub) -> None:
    consumer, producer = pair(core)
    first = frames.message(b"x" * 10)
    producer.send(frames.transfer(0, first, more=True))
    (seen,) = [f for f in consumer.frames() if isinstance(f, frames.Seen) and isinstance(f.performative, Transfer)]
    assert seen.payload == first
    assert seen.performative.more is True  # type: ignore[union-attr]
    producer.send(frames.transfer(None, b"y"))
    (seen,) = [f for f in consumer.frames() if isinstance(f, frames.Seen)]
    assert (seen.payload, seen.performative.more) == (b"y", False)  # type: ignore[union-attr]


@pytest.mark.parametrize("credit", [0, 10], ids=["waiting", "straight"])
@pytest.mark.parametrize("settled", [True, False], ids=["pre-settled", "unsettled"])
def test_aborted_delivery_is_aborted_at_the_consumer(core: Hub, credit: int, settled: bool) -> None:
    consumer, producer = pair(core, credit)
    producer.send(frames.transfer(0, frames.message(b"x"), settled=settled, more=True))
    producer.send(frames.transfer(None, b"", aborted=True), frames.transfer(1, b"\x00\x53\x77\x40", settled=settled))
    consumer.send(frames.credit(10))
    found = deliveries(consumer) if credit == 0 else None
    if found is None:
        assert consumer.session().links[0].busy is False
    link = consumer.session().links[0]
    assert link.delivery_count == (1 if credit == 0 else 2)
    assert link.unsettled == (0 if settled else 1)


def test_2_5_6_abort_waits_for_the_session_window(core: Hub) -> None:
    consumer = core.peer().open().begin(incoming_window=1)
    consumer.send(frames.attach_receiver(), frames.credit(10, incoming_window=1))
    producer = core.peer().open().begin()
    producer.send(frames.attach_sender())
    producer.send(frames.transfer(0, frames.message(b"x"), more=True), frames.transfer(None, b"more", more=True))
    producer.send(frames.transfer(None, b"", aborted=True))
    assert len([p for p in consumer.take() if isinstance(p, Transfer)]) == 1
    producer.send(frames.transfer(1, frames.message(b"next"), settled=True))
    answers = consumer.send(frames.flow(next_incoming_id=1, incoming_window=1))
    assert [a.aborted for a in answers if isinstance(a, Transfer)] == [True]
    answers = consumer.send(frames.flow(next_incoming_id=2, incoming_window=9))
    assert [a.delivery_id for a in answers if isinstance(a, Transfer)] == [1]


@pytest.mark.parametrize("window", [1, 2])
def test_empty_last_fragment_waits_for_the_session_window(core: Hub, window: int) -> None:
    consumer = core.peer().open().begin(incoming_window=window)
    consumer.send(frames.attach_receiver(), frames.credit(10, incoming_window=window))
    producer = core.peer().open().begin()
    producer.send(frames.attach_sender())
    producer.send(frames.transfer(0, frames.message(b"x"), more=True), frames.transfer(None, b"y", more=True))
    producer.send(frames.transfer(None, b""))
    got = consumer.send(frames.flow(next_incoming_id=window, incoming_window=9))
    assert [t.more for t in got if isinstance(t, Transfer)][-1] is False
    assert not consumer.session().links[0].busy


def test_2_5_6_copies_on_one_session_share_its_window(core: Hub) -> None:
    handler: Any = core.handler
    handler.address_table.add_pattern(
        {"pattern": None, "prefix": "m", "distribution": "multicast", "ingressPhase": 0, "egressPhase": 0}
    )
    consumer = core.peer().open().begin(incoming_window=1)
    consumer.send(*[frames.attach_receiver(f"l{i}", i, address="m") for i in range(3)])
    consumer.send(*[frames.credit(5, i, incoming_window=1) for i in range(3)])
    producer = core.peer().open().begin()
    producer.send(frames.attach_sender(address="m"))
    producer.send(frames.transfer(0, settled=True))
    assert len([p for p in consumer.take() if isinstance(p, Transfer)]) == 1
    answers = consumer.send(frames.flow(next_incoming_id=1, incoming_window=5))
    assert len([a for a in answers if isinstance(a, Transfer)]) == 2


@pytest.mark.parametrize("more", [False, True])
def test_2_6_12_delivery_id_in_use_ends_the_session_and_nothing_was_sent(core: Hub, more: bool) -> None:
    consumer, producer = pair(core)
    producer.send(frames.transfer(0))
    consumer.take()
    answers = producer.send(frames.transfer(0, more=more))
    assert isinstance(answers[-1], End)
    assert consumer.take() == []
    other = core.peer().open().begin()
    other.send(frames.attach_sender())
    other.send(frames.transfer(0, frames.message(b"healthy"), settled=True))
    assert deliveries(consumer) == [frames.message(b"healthy")]


@pytest.mark.parametrize("size", [1, 2, 5, 40])
@pytest.mark.parametrize("anonymous", [False, True])
def test_head_of_a_message_in_many_fragments(core: Hub, size: int, anonymous: bool) -> None:
    """The sections that a router must see come in pieces; the consumer gets the same message."""
    annotations = b"\x00\x53\x72\xc1" + bytes((30, 2)) + b"\xa3\x05x-opt\xa1\x14" + b"v" * 20
    body = b"\x00\x53\x70\x45" + annotations + b"\x00\x53\x73\xc0\x06\x03\x40\x40\xa1\x01q" + frames.message(b"x" * 50)
    consumer, producer = pair(core)
    if anonymous:
        producer.send(frames.detach(), frames.attach_sender("anonymous", address=None))
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    for i, part in enumerate(parts):
        producer.send(frames.transfer(0 if i == 0 else None, part, more=i < len(parts) - 1))
    assert [len(d) for d in deliveries(consumer)] == [len(body) + 6]  # the annotations come back as a map32
    assert not producer.conn.done


def test_2_6_7_credit_comes_back_once_for_what_waited_and_was_taken_settled(core: Hub) -> None:
    """The last frame of a delivery that waited in parts: the consumer takes it settled, the producer has not."""
    consumer = core.peer().open().begin()
    consumer.send(frames.attach_receiver(snd_settle_mode=1))
    producer = core.peer().open().begin()
    producer.send(frames.attach_sender())
    link = producer.session().links[0]
    capacity = link.credit
    producer.send(frames.transfer(0, frames.message(b"x"), more=True))
    consumer.send(frames.credit(1))
    producer.send(frames.transfer(None, b"y"))
    assert link.outstanding == 0
    assert link.credit + link.replenish == capacity
