"""The subject of a message, found without decoding the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_amqp.message import Message, encode_message
from waymesh_router.core.exchanges.subject import MAX_SUBJECT, subject_of

pytestmark = pytest.mark.engine_independent


@pytest.mark.parametrize(
    ("message", "subject"),
    [
        (Message(subject="s"), "s"),
        (Message(subject="s", to="t", message_id=1), "s"),
        (Message(subject=""), ""),
        (Message(to="t"), None),
        (Message(), None),
        (Message(subject="x" * MAX_SUBJECT), "x" * MAX_SUBJECT),
        (Message(subject="x" * (MAX_SUBJECT + 1)), None),
    ],
)
def test_the_subject_is_read(message: Message, subject: str | None) -> None:
    assert subject_of(encode_message(message), 0) == subject


@given(st.binary(max_size=30))
def test_unreadable_properties_have_no_subject(tail: bytes) -> None:
    assert isinstance(subject_of(b"\x00\x53\x73" + tail, 0), str | None)
