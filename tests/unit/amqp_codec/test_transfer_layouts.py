"""A transfer with the layout of the previous one is recognized by comparing bytes, with the result of a fresh parse."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from waymesh_amqp.errors import DecodeError
from waymesh_amqp.transfer import IncomingTransfer

FIELDS = (
    "at",
    "start",
    "end",
    "handle",
    "delivery_id",
    "tag_bytes",
    "message_format",
    "settled",
    "more",
    "resume",
    "aborted",
    "state_bytes",
    "rest_fields",
)
NULL = b"\x40"


def number(value: int) -> st.SearchStrategy[bytes]:
    """Every encoding of a number that a reader accepts."""
    encodings = [b"\x70" + value.to_bytes(4, "big")]
    if value < 256:
        encodings += [bytes((0x52, value)), bytes((0x50, value)), bytes((0x56, value % 2))]
    if value < 65536:
        encodings.append(b"\x60" + value.to_bytes(2, "big"))
    if value == 0:
        encodings.append(b"\x43")
    return st.sampled_from(encodings)


def tag(size: int) -> st.SearchStrategy[bytes]:
    """A delivery-tag in its short or long encoding."""
    body = st.binary(min_size=size, max_size=size)
    return body.flatmap(lambda b: st.sampled_from([bytes((0xA0, size)) + b, b"\xb0" + size.to_bytes(4, "big") + b]))


flag = st.sampled_from([NULL, b"\x41", b"\x42", b"\x56\x01", b"\x56\x00"])
few_numbers = st.sampled_from([0, 1, 7, 255, 256, 65536, 0xFFFFFFFF]).flatmap(number)
columns = (
    st.sampled_from([0, 3, 112, 300]).flatmap(number),
    few_numbers | st.just(NULL),
    st.sampled_from([0, 1, 4, 32]).flatmap(tag) | st.just(NULL),
    few_numbers | st.just(NULL),
    flag,
    flag,
    st.just(NULL) | st.just(b"\x50\x00"),
    st.sampled_from([NULL, b"\x00\x53\x24\x45", b"\x00\x53\x34\xc0\x04\x01\xa0\x01\x07"]),
    flag,
    flag,
    flag,
)


@st.composite
def field_lists(draw: st.DrawFn) -> bytes:
    """The field list of a transfer: of the usual layout, of any other, or damaged."""
    if draw(st.booleans()):
        did = draw(st.integers(0, 0xFFFFFFFF))
        values = [b"\x43", b"\x70" + did.to_bytes(4, "big"), b"\xa0\x04" + draw(st.binary(min_size=4, max_size=4))]
        values += [b"\x43", draw(st.sampled_from([b"\x41", b"\x42"]))]
    else:
        values = [draw(column) for column in columns[: draw(st.integers(1, len(columns)))]]
    body = b"".join(values)
    encoded = bytes((0xC0, len(body) + 1, len(values))) + body
    if len(body) > 254 or draw(st.integers(0, 9)) == 0:
        encoded = b"\xd0" + (len(body) + 4).to_bytes(4, "big") + len(values).to_bytes(4, "big") + body
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(encoded) - 1))
        encoded = encoded[:at] + bytes((draw(st.integers(0, 255)),)) + encoded[at + 1 :]
    return encoded


def outcome(transfer: IncomingTransfer, frame: bytes, at: int) -> tuple[object, ...] | str:
    """What a reader makes of a frame."""
    transfer.hold(frame)
    try:
        transfer.read(at, len(frame))
    except DecodeError as error:
        return str(error)
    return tuple(getattr(transfer, name) for name in FIELDS)


@given(st.lists(st.tuples(field_lists(), st.binary(max_size=6), st.integers(0, 3)), min_size=1, max_size=4), st.data())
def test_a_layout_like_the_last_one_is_read_as_if_it_were_new(
    kinds: list[tuple[bytes, bytes, int]], data: st.DataObject
) -> None:
    reader = IncomingTransfer()
    for _ in range(12):
        fields, payload, at = data.draw(st.sampled_from(kinds))
        if len(fields) > 12 and data.draw(st.booleans()):  # the same layout with other bytes in it
            where = data.draw(st.integers(3, len(fields) - 1))
            fields = fields[:where] + bytes((data.draw(st.integers(0, 255)),)) + fields[where + 1 :]
        frame = bytes(at) + fields + payload
        assert outcome(reader, frame, at) == outcome(IncomingTransfer(), frame, at)
        if data.draw(st.integers(0, 5)) == 0:
            cut = frame[: data.draw(st.integers(at, len(frame)))]
            assert outcome(reader, cut, at) == outcome(IncomingTransfer(), cut, at)
