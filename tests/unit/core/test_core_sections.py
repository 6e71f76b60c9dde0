"""Positions of the sections of a message, found without decoding them."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.pump import core_hub
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.outcomes import REJECTED_CODE
from waymesh_amqp.transfer import whole_transfer
from waymesh_amqp.types import decode
from waymesh_router.core.forwarding.sections import Sections

HEADER = b"\x00\x53\x70\xc0\x02\x01\x41"
DELIVERY = b"\x00\x53\x71\xc1\x01\x00"
ANNOTATIONS = b"\x00\x53\x72\xc1\x01\x00"
BODY = b"\x00\x53\x77\x40"


@pytest.mark.parametrize(
    ("front", "annotations"),
    [(b"", b""), (HEADER, b""), (HEADER + DELIVERY, b""), (b"", ANNOTATIONS), (HEADER + DELIVERY, ANNOTATIONS)],
)
@pytest.mark.parametrize("long_descriptor", [False, True])
def test_header_and_annotations_are_told_from_the_rest(
    front: bytes, annotations: bytes, long_descriptor: bool
) -> None:
    if long_descriptor and annotations:
        annotations = annotations.replace(b"\x00\x53\x72", b"\x00\x80" + bytes(7) + b"\x72")
    message = front + annotations + BODY
    sections = Sections()
    assert sections.scan(whole_transfer(message, False))
    assert (message[: sections.head], message[sections.head : sections.rest]) == (front, annotations)


@pytest.mark.parametrize(
    ("message", "more", "whole"),
    [
        (HEADER, True, False),
        (HEADER, False, True),
        (HEADER[:-1], True, False),
        (HEADER[:-1], False, False),
        (HEADER + b"\x00", True, False),
        (HEADER + ANNOTATIONS, True, False),
        (HEADER + ANNOTATIONS, False, True),
        (HEADER + ANNOTATIONS[:-1], True, False),
        (HEADER + BODY, True, True),
    ],
)
def test_a_frame_that_ends_early_is_known(message: bytes, more: bool, whole: bool) -> None:
    assert bool(Sections().scan(whole_transfer(message, more))) is whole


@pytest.mark.parametrize(
    ("properties", "to"),
    [
        ({"to": "orders"}, "orders"),
        ({"message_id": "1", "to": "orders", "subject": "s"}, "orders"),
        ({"message_id": "1"}, None),
        ({}, None),
    ],
)
def test_the_address_of_a_message(properties: dict[str, str], to: str | None) -> None:
    message = HEADER + encode_message(Message(body=b"x", body_kind="data", **properties))  # type: ignore[arg-type]
    transfer = whole_transfer(message, False)
    sections = Sections()
    sections.scan(transfer)
    at = sections.find_to(transfer)
    assert (decode(message, at)[0] if at >= 0 else None) == to


def test_properties_that_go_on_in_the_next_frame() -> None:
    message = encode_message(Message(to="a" * 40, body=b"x", body_kind="data"))[:30]
    transfer = whole_transfer(message, True)
    sections = Sections()
    sections.scan(transfer)
    assert sections.find_to(transfer) == -2


@pytest.mark.parametrize(
    ("message", "needed"),
    [
        (b"", 0),
        (HEADER, 0),
        (HEADER[:-1], 0),
        (b"\x00\x53\x72\xd1\x00\x0f\x42\x40", 8 + 1_000_000),
        (HEADER + b"\x00\x53\x72\xd1\xff\xff\xff\xff", 7 + 8 + 2**32 - 1),
        (HEADER + b"\x00\x53\x72\xc1\x80\x00\x00\x00", 7 + 5 + 0x80),
        (HEADER + DELIVERY + b"\x00\x80" + bytes(7) + b"\x73\xd0\x00\x00\x01\x00", 7 + 6 + 15 + 256),
        (b"\x00\x53\x72\x00\x53\x01\xd1\x00\x0f\x42\x40", 0),
        (b"\x00\x53\x75\xb0\x00\x0f\x42\x40", 0),
    ],
)
def test_the_end_of_a_section_that_is_cut_off_is_known_by_its_size(message: bytes, needed: int) -> None:
    assert Sections().needed(whole_transfer(message, True)) == needed


def test_annotations_that_are_said_to_be_too_long_are_refused_at_their_first_frame() -> None:
    hub = core_hub()
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender(address="a"))
    hub.peer().open().begin().send(frames.attach_receiver(address="a"))
    long = b"\x00\x53\x72\xd1\x00\x10\x00\x00\x00\x00\x00\x02\xa3\x01x\xb1\x00\x0f\xff\x00"
    (state,) = frames.told(peer.send(frames.transfer(0, long, more=True), frames.transfer(None, b"x", more=True)))
    assert state.descriptor == REJECTED_CODE
