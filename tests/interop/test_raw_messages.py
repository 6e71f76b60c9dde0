"""Messages pass byte for byte, whatever encodings their sender chose; router annotations. AMQP Mapping 3.3.1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.interop.raw_client import RawClient
from tests.interop.shared import ADDRESSES, fresh
from tests.kit.fixtures import StartMesh
from tests.kit.mesh import Mesh
from tests.kit.process import RouterProcess
from waymesh_amqp.message import decode_message
from waymesh_amqp.performatives import Disposition
from waymesh_amqp.types import Described, Raw, Symbol, UByte, UInt, ULong, encode

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

Pair = tuple[RawClient, RawClient]

BODY = b"\x00\x53\x77\xa1\x05hello"
WIDE = b"\x00\x80" + bytes(7)
"""The beginning of a descriptor in its longest form."""


def wide(code: int, value: bytes) -> bytes:
    """A section with a descriptor of nine octets."""
    return WIDE + bytes([code]) + value


def section_of(code: int, value: object) -> bytes:
    """A section with the shortest descriptor."""
    return encode(Described(ULong(code), value))


HEADER = section_of(0x70, [True, UByte(7), UInt(60_000), False, UInt(5)])
WIDE_HEADER = wide(0x70, b"\xd0\x00\x00\x00\x06\x00\x00\x00\x01\x56\x01")
INSTRUCTIONS = section_of(0x71, {Symbol("x-opt-i"): 1})
PROPERTIES = section_of(0x73, ["id", b"user", "to", "subject"])
APPLICATION = section_of(0x74, {"a": 1, "b": None})
FOOTER = section_of(0x78, {Symbol("x-opt-sum"): b"\x00\x01", Symbol("x-opt-n"): ULong(2**40)})
ANNOTATIONS = section_of(0x72, {Symbol("x-opt-foo"): [1, "two"]})

WITHOUT_ANNOTATIONS = {
    "body alone": BODY,
    "empty": b"",
    "header, long": WIDE_HEADER + BODY,
    "all sections": HEADER + INSTRUCTIONS + PROPERTIES + APPLICATION + BODY + FOOTER,
    "data sections": HEADER + b"\x00\x53\x75\xa0\x01a" + wide(0x75, b"\xb0\x00\x00\x00\x02bc") + FOOTER,
    "sequences": PROPERTIES + b"\x00\x53\x76\x45" + b"\x00\x53\x76\xc0\x03\x02\x41\x42",
    "values, long": BODY[:3] + b"\xd0\x00\x00\x00\x0d\x00\x00\x00\x03\x71\x00\x00\x00\x01\x54\x01\x52\x01",
    "properties, no fields": b"\x00\x53\x73\x45" + BODY,
    "unknown section behind": PROPERTIES + BODY + b"\x00\xa3\x06x:mine\x40",
}


@pytest.fixture(params=["one", "four"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Clients with a session: both on one router, or at the ends of a line of four."""
    if request.param == "one":
        router: RouterProcess = request.getfixturevalue("router1")
        routers = [router, router]
    else:
        mesh: Mesh = request.getfixturevalue("line4")
        routers = [mesh.routers[0], mesh.routers[-1]]
    with ExitStack() as stack:
        sending, receiving = [stack.enter_context(RawClient(router.port)) for router in routers]
        for client in (sending, receiving):
            client.open()
            client.begin()
        yield sending, receiving


def passed(pair: Pair, payload: bytes, **fields: object) -> tuple[bytes, object]:
    """Payload and transfer as they arrive."""
    address = fresh()
    sending, receiving = pair
    receiving.attach_receiver(address, credit=1)
    handle = sending.attach_sender(address)
    sending.transfer(handle, payload, settled=True, **fields)
    transfer, data = receiving.delivery()
    return data, transfer


@pytest.mark.parametrize("kind", WITHOUT_ANNOTATIONS)
def test_payload_without_annotations(pair: Pair, kind: str) -> None:
    assert passed(pair, WITHOUT_ANNOTATIONS[kind])[0] == WITHOUT_ANNOTATIONS[kind]


@pytest.mark.parametrize(
    "pairs",
    [
        encode(Symbol("x-opt-foo")) + b"\xb1\x00\x00\x00\x01a",
        encode(Symbol("x-opt-foo")) + b"\x71\x00\x00\x00\x01" + b"\xb3\x00\x00\x00\x01k" + b"\x56\x01",
        encode(Symbol("x-opt-foo")) + b"\x00\xa3\x04x:ty\xc1\x01\x00",
        encode(Symbol("x-opt-foo")) + b"\xf0\x00\x00\x00\x06\x00\x00\x00\x01\x50\x07",
        b"\x80" + bytes(7) + b"\x05" + b"\x40",
    ],
    ids=["long string", "int in four, long key", "described", "array", "ulong key"],
)
def test_values_of_client_annotations_keep_their_encoding(pair: Pair, pairs: bytes) -> None:
    """The map around them may be written anew; each key and value is the same bytes."""
    count = 4 if b"\xb3" in pairs else 2
    mine = b"\x00\x53\x72\xc1" + bytes([len(pairs) + 1, count]) + pairs
    data = passed(pair, HEADER + mine + PROPERTIES + BODY + FOOTER)[0]
    assert data.startswith(HEADER)
    assert data.endswith(pairs + PROPERTIES + BODY + FOOTER)
    assert b"x-opt-qd" not in data


@pytest.mark.parametrize("message_format", [0, 1, 0x80013700, 2**32 - 1])
def test_message_format(pair: Pair, message_format: int) -> None:
    data, transfer = passed(pair, BODY, message_format=message_format)
    assert data == BODY
    assert transfer.message_format == message_format  # type: ignore[attr-defined]


def test_outcome_bytes_pass_untouched(pair: Pair) -> None:
    """A state that the router does not know, in an encoding that nobody would choose."""
    state = wide(0x25, b"\xd0" + (4 + 24).to_bytes(4, "big") + (1).to_bytes(4, "big")) + (
        b"\x00\x80" + bytes(7) + b"\x1d\xc0\x0c\x02\xa3\x05x:err\xa1\x02no"
    )
    address = fresh()
    sending, receiving = pair
    receiving.attach_receiver(address, credit=1)
    handle = sending.attach_sender(address)
    sending.transfer(handle, BODY)
    received, _ = receiving.delivery()
    receiving.put(Disposition(role=True, first=received.delivery_id or 0, settled=True, state=Raw(state)))
    sending.expect(Disposition)
    assert sending.last.endswith(state)


def test_annotations_of_the_routers_where_they_are_not_stripped(start_mesh: StartMesh) -> None:
    """Ingress and trace as AMQP Mapping 3.3.1 says; the client's own come first and whole."""
    mesh = start_mesh(3, extra=ADDRESSES)
    for router in mesh.routers:
        router.stop()
        text = router.config_path.read_text(encoding="utf-8")
        text = text.replace("    port:", "    stripAnnotations: no\n    port:", 1)
        router.config_path.write_text(text, encoding="utf-8")
    mesh.start()
    address = fresh()
    with RawClient(mesh["A"].port) as sending, RawClient(mesh["C"].port) as receiving:
        for client in (sending, receiving):
            client.open()
            client.begin()
        receiving.attach_receiver(address, credit=1)
        sending.transfer(sending.attach_sender(address), HEADER + ANNOTATIONS + BODY, settled=True)
        data = receiving.delivery()[1]
    annotations = decode_message(data).message_annotations
    assert annotations == {
        "x-opt-foo": [1, "two"],
        "x-opt-qd.to": address,
        "x-opt-qd.ingress": "0/A",
        "x-opt-qd.trace": ["0/A", "0/B", "0/C"],
    }
