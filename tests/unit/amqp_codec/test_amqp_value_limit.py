"""Performatives with very many values are refused before they are decoded."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from waymesh_amqp.codec_decode import has_more_values
from waymesh_amqp.codec_encode import encode
from waymesh_amqp.codec_values import Array, Described, Symbol, ULong, symbol_array
from waymesh_amqp.errors import DecodeError
from waymesh_amqp.performatives import MAX_VALUES, Attach, decode_performative

pytestmark = pytest.mark.engine_independent

VALUES: list[tuple[Any, int]] = [
    (None, 1),
    (True, 1),
    (7, 1),
    ("text", 1),
    ("x" * 300, 1),
    (b"octets", 1),
    ([], 1),
    ([1, [2, "x"], None], 6),
    (list(range(300)), 301),
    ({"a": 1, "b": {"c": "d"}}, 7),
    (Described(ULong(0x24), []), 3),
    (Described(Symbol("amqp:accepted:list"), [1, 2]), 5),
    (symbol_array(["a", "b", "c"]), 4),
    (symbol_array(["x" * 20] * 40), 41),
]


@pytest.mark.parametrize(("value", "count"), VALUES, ids=[repr(value)[:30] for value, _ in VALUES])
def test_values_are_counted(value: Any, count: int) -> None:
    data = encode(value)
    assert not has_more_values(data, 0, len(data), count)
    assert has_more_values(data, 0, len(data), count - 1)


@pytest.mark.parametrize("octets", ["a1", "b1000000", "b1ffffffff", "e0", "f000", "f0ffffffff", "c0", "80ff", "ff"])
def test_invalid_octets_are_left_to_the_decoder(octets: str) -> None:
    data = bytes.fromhex(octets)
    assert not has_more_values(data, 0, len(data), MAX_VALUES)
    with pytest.raises(DecodeError):
        decode_performative(b"\x00\x53\x12" + data, 0, len(data) + 3)


def attach(pairs: int) -> bytes:
    """The body of an attach with so many properties; its other values are no more than 50."""
    return frames.attach_receiver(properties={Symbol(f"key-{n}"): n for n in range(pairs)})[8:]


def test_a_performative_may_have_many_values() -> None:
    body = attach((MAX_VALUES - 50) // 2)
    attached, after = decode_performative(body, 0, len(body))
    assert after == len(body)
    assert isinstance(attached, Attach)
    assert isinstance(attached.properties, dict)
    assert attached.properties["key-400"] == 400


def test_a_performative_with_too_many_values_is_refused() -> None:
    body = attach(MAX_VALUES // 2)
    with pytest.raises(DecodeError, match=f"attach: more than {MAX_VALUES} values"):
        decode_performative(body, 0, len(body))


NULLS = [None] * (2 * MAX_VALUES)


@pytest.mark.parametrize(
    "array",
    [
        Array(0xD0, [NULLS]),
        Array(0xD1, [dict.fromkeys(range(MAX_VALUES))]),
        Array(0xF0, [Array(0x51, [1] * len(NULLS))]),
        Array(0x40, [None], descriptors=(NULLS,)),
    ],
    ids=["lists", "maps", "arrays", "descriptors"],
)
def test_values_within_the_elements_of_an_array_count(array: Array) -> None:
    body = frames.attach_receiver(properties={Symbol("key"): array})[8:]
    with pytest.raises(DecodeError, match=f"attach: more than {MAX_VALUES} values"):
        decode_performative(body, 0, len(body))


def test_a_short_array_of_lists_is_no_harm() -> None:
    array = Array(0xD0, [[1, 2], [3]])
    body = frames.attach_receiver(properties={Symbol("key"): array})[8:]
    attached, _ = decode_performative(body, 0, len(body))
    assert isinstance(attached, Attach)
    assert attached.properties == {Symbol("key"): array}


def test_octets_behind_the_performative_do_not_count() -> None:
    body = frames.transfer(payload=b"\x40" * (2 * MAX_VALUES))[8:]
    _, after = decode_performative(body, 0, len(body))
    assert after == len(body) - 2 * MAX_VALUES
