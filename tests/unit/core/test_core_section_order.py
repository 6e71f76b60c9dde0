"""Messages whose sections are in AMQP's order are told from others, however they are divided into frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_amqp.handler import Handler
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.session import Session
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.transfer import whole_transfer
from waymesh_router.core.forwarding.section_order import SectionOrder, is_usual
from waymesh_router.core.forwarding.sections import Sections
from waymesh_router.core.model import RouterConnection, RouterLink

HEADER = b"\x00\x53\x70\xc0\x02\x01\x41"
DELIVERY = b"\x00\x53\x71\xc1\x01\x00"
ANNOTATIONS = b"\x00\x53\x72\xc1\x01\x00"
PROPERTIES = b"\x00\x53\x73\xc0\x07\x02\x40\xa0\x03bob"
SYMBOLIC = b"\x00\xa3\x14amqp:properties:list" + PROPERTIES[3:]
LONG = b"\x00\x80" + bytes(7) + b"\x73" + PROPERTIES[3:]
OTHER_LONG = b"\x00\x80\x01" + bytes(6) + b"\x73" + PROPERTIES[3:]
APPLICATION = b"\x00\x53\x74\xc1\x01\x00"
DATA = b"\x00\x53\x75\xa0\x02xy"
LONG_DATA = b"\x00\x53\x75\xb0\x00\x00\x00\x02xy"
SEQUENCE = b"\x00\x53\x76\x45"
VALUE = b"\x00\x53\x77\x40"
TEXT = b"\x00\x53\x77\xa1\x02hi"
DESCRIBED = b"\x00\x53\x77\x00\x00\xa1\x01d\x60\x01\x02\x70abcd"
FOOTER = b"\x00\x53\x78\xd1\x00\x00\x00\x04\x00\x00\x00\x00"

IN_ORDER = [
    b"",
    HEADER + DELIVERY + ANNOTATIONS + PROPERTIES + APPLICATION + DATA + FOOTER,
    PROPERTIES + DATA + LONG_DATA,
    LONG + SEQUENCE + SEQUENCE,
    DESCRIBED + FOOTER,
    encode_message(Message(to="a" * 300, user_id=b"u", body={"k": [1, 2.5, None, True]})),
]
NOT_IN_ORDER = [
    DATA + PROPERTIES,
    VALUE + PROPERTIES,
    FOOTER + PROPERTIES,
    PROPERTIES + PROPERTIES + DATA,
    APPLICATION + PROPERTIES + DATA,
    PROPERTIES + HEADER + DATA,
    HEADER + HEADER + DATA,
    VALUE + VALUE,
    DATA + SEQUENCE,
    SYMBOLIC + DATA,
    OTHER_LONG + DATA,
    PROPERTIES + b"\x00\x53\x79\x40" + DATA,
    PROPERTIES + b"\x40",
    PROPERTIES + b"\x00\x53\x77\x00" + b"\x00" * 100 + b"\x40",
    PROPERTIES + b"\x00\x53\x77\x33",
]


def follow(order: SectionOrder, *frames: bytes) -> bool:
    order.begin()
    last = len(frames) - 1
    return all(order.take(whole_transfer(frame, i < last)) for i, frame in enumerate(frames))


def ways(message: bytes) -> list[tuple[bytes, ...]]:
    """The message in one frame, in two, divided at each place, and in frames of one octet."""
    halves = [(message[:at], message[at:]) for at in range(1, len(message))]
    return [(message,), *halves, tuple(message[i : i + 1] for i in range(len(message))) or (b"",)]


@pytest.mark.parametrize("message", IN_ORDER)
def test_sections_in_order(message: bytes) -> None:
    order = SectionOrder()
    for frames in ways(message):
        assert follow(order, *frames), frames


@pytest.mark.parametrize("message", NOT_IN_ORDER)
def test_sections_out_of_order_repeated_or_unknown(message: bytes) -> None:
    order = SectionOrder()
    for frames in ways(message):
        assert not follow(order, *frames), frames


def a_link() -> RouterLink:
    connection = RouterConnection(ConnectionSettings("A"), Handler(), 0.0)
    return RouterLink(Session(connection, 0, 100))


def usual(message: bytes, user: bytes | None = None) -> bool:
    """Whether a message is allowed at a glance. `user`: the user-id that was allowed last; None: it is not checked."""
    transfer, sections, link = whole_transfer(message, False), Sections(), a_link()
    if not sections.scan(transfer):
        return False
    order = SectionOrder()
    order.user = user or b""
    link.section_order, link.checks_user = order, user is not None
    found: bool = is_usual(link, sections, transfer)
    return found


@pytest.mark.parametrize("message", [*IN_ORDER, *NOT_IN_ORDER])
def test_what_is_allowed_at_a_glance_is_in_order(message: bytes) -> None:
    for end in range(len(message) + 1):
        assert not usual(message[:end]) or follow(SectionOrder(), message[:end])


def has_user(message: bytes) -> bool:
    """Whether a message has no user-id or that of bob, by the slow way."""
    transfer, sections = whole_transfer(message, False), Sections()
    if not follow(SectionOrder(), message) or not sections.scan(transfer):
        return False
    at = sections.find_user_id(transfer)
    return at == -1 or (at >= 0 and (message[at] == 0x40 or message[at : at + len(BOB)] == BOB))


@pytest.mark.parametrize(
    "message", [TEXT, HEADER + TEXT, PROPERTIES + DATA, HEADER + PROPERTIES + APPLICATION + LONG_DATA]
)
def test_the_usual_messages_are_allowed_at_a_glance(message: bytes) -> None:
    assert usual(message)
    assert usual(message, BOB)
    assert usual(message, b"\xa0\x03eve") == (PROPERTIES not in message)
    assert usual(message, b"") == (PROPERTIES not in message)


def test_a_message_whose_other_frames_follow_is_not_judged_at_a_glance() -> None:
    sections, link, transfer = Sections(), a_link(), whole_transfer(HEADER + TEXT, True)
    link.section_order = SectionOrder()
    assert sections.scan(transfer)
    assert not is_usual(link, sections, transfer)


BOB = b"\xa0\x03bob"
NUMBERS = [b"\x44", b"\x53\x07", b"\x80" + bytes(8), b"\x98" + bytes(16)]
IDS = [b"\x40", *NUMBERS, b"\xa0\x01i", b"\xa1\x02id", b"\xb1\0\0\0\1i"]
USERS = [b"", b"\x40", BOB, b"\xa0\x03eve", b"\xa0\x00", b"\xa0\x09bob", b"\x3f\x03bob", b"\xb0\0\0\0\3bob"]


@given(st.sampled_from(IDS), st.sampled_from(USERS), st.integers(0, 255), st.booleans(), st.integers(-3, 3))
def test_a_user_id_that_is_allowed_at_a_glance_is_allowed(
    message_id: bytes, user: bytes, count: int, long: bool, wrong: int
) -> None:
    """Also with counts and sizes that are wrong, and with what the place of another message-id would make of it."""
    content = message_id + user
    if long:
        body = b"\xd0" + (len(content) + 4 + wrong).to_bytes(4, "big") + count.to_bytes(4, "big") + content
    else:
        body = b"\xc0" + bytes([len(content) + 1 + wrong if len(content) + wrong >= 0 else 0, count]) + content
    message = b"\x00\x53\x73" + body + VALUE
    assert not usual(message, BOB) or has_user(message)


@pytest.mark.parametrize("message", [m for m in IN_ORDER if m])
def test_a_message_that_ends_inside_a_section(message: bytes) -> None:
    order = SectionOrder()
    assert not follow(order, message[:-1])
    assert not follow(order, message[:2], message[2:-1])


@pytest.mark.parametrize(
    "properties",
    [
        b"\xc0\x07\x00\x40\xa0\x03bob",  # announces no value, has two
        b"\xc0\x07\x02\x40\xa0\x09bob",  # user-id goes beyond the list
        b"\xc0\x07\x02\x40\x3f\x03bob",  # unknown constructor
    ],
)
def test_properties_that_cannot_be_read_are_not_taken_as_absent(properties: bytes) -> None:
    transfer = whole_transfer(b"\x00\x53\x73" + properties + VALUE, False)
    sections = Sections()
    assert sections.scan(transfer)
    assert sections.find_user_id(transfer) < -2
