"""The bytes of control messages, and their content."""

from __future__ import annotations

import pytest

from waymesh_amqp.errors import DecodeError
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_router.control_messages import CONTENT_CACHE_BYTES, content_of, control_message, encode_body
from waymesh_router.core.forwarding.annotations import INGRESS, TRACE

TO = "amqp:/_topo/0/all/qdrouter"


def content(opcode: str, body: object) -> bytes:
    return encode_message(Message(application_properties={"opcode": opcode}, body=body, body_kind="value"))


def test_a_message_over_several_hops_has_its_ingress_and_trace() -> None:
    message = decode_message(control_message(TO, "RA", {"id": "A", "ls_seq": 7}, "A"))
    assert message.to == TO
    assert message.application_properties == {"opcode": "RA"}
    assert message.body == {"id": "A", "ls_seq": 7}
    assert message.message_annotations == {TRACE: ["0/A"], INGRESS: "0/A"}


def test_a_message_to_a_neighbour_has_no_annotations() -> None:
    message = decode_message(control_message("amqp:/_local/qdhello", "HELLO", {"id": "A"}, None))
    assert not message.message_annotations


@pytest.mark.parametrize("size", [1, 2 * CONTENT_CACHE_BYTES])
def test_opcode_and_body_are_read_also_of_long_messages(size: int) -> None:
    body = {"id": "A" * size}
    assert content_of(content("LSU", body)) == ("LSU", body)


def test_what_cannot_be_decoded_is_an_error() -> None:
    with pytest.raises(DecodeError):
        content_of(b"\x00\x53")


def test_a_body_has_symbols_as_keys() -> None:
    assert b"\xa3\x02id" in encode_body({"id": "A"})
