"""Mutations that know the structure of frames: sizes and counts are the interesting places."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

SIZES = (
    0,
    1,
    2,
    3,
    7,
    8,
    0x7F,
    0x80,
    0xFF,
    0x100,
    0x7FFF,
    0xFFFF,
    0x10000,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFE,
    0xFFFFFFFF,
)
CONSTRUCTORS = bytes(
    (0x00, 0x40, 0x41, 0x42, 0x43, 0x45, 0x50, 0x52, 0x53, 0x56, 0x60, 0x70, 0x80, 0x94, 0xA0, 0xA1)
) + bytes((0xA3, 0xB0, 0xB1, 0xC0, 0xC1, 0xD0, 0xD1, 0xE0, 0xF0, 0xFF))
MAX_BYTES = 20000


def flip(rng: random.Random, data: bytearray) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def set_byte(rng: random.Random, data: bytearray) -> None:
    data[rng.randrange(len(data))] = rng.randrange(256)


def set_constructor(rng: random.Random, data: bytearray) -> None:
    data[rng.randrange(len(data))] = rng.choice(CONSTRUCTORS)


def set_size(rng: random.Random, data: bytearray) -> None:
    """A four-byte or one-byte size, count or serial number."""
    at = rng.randrange(len(data))
    value = rng.choice(SIZES)
    if rng.random() < 0.5 and len(data) - at >= 4:
        data[at : at + 4] = value.to_bytes(4, "big")
    else:
        data[at] = value & 255


def delete(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.choice((1, 1, 2, 4, 8, 30))]


def insert(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.randbytes(rng.choice((1, 1, 2, 4, 8)))


def repeat(rng: random.Random, data: bytearray) -> None:
    """A piece again, once or often: fragments, empty frames, nested values."""
    at = rng.randrange(len(data))
    piece = data[at : at + rng.choice((1, 2, 8, 20, 60, 200))]
    data[at:at] = piece * rng.choice((1, 1, 2, 10, 100))


MUTATIONS: tuple[Callable[[random.Random, bytearray], None], ...] = (
    flip,
    set_byte,
    set_constructor,
    set_constructor,
    set_size,
    set_size,
    delete,
    insert,
    repeat,
)


def frame_starts(data: bytes | bytearray) -> list[int]:
    """Where frames seem to begin, behind the first byte."""
    starts = []
    pos = 1
    while pos + 8 <= len(data):
        starts.append(pos)
        size = 8 if data[pos : pos + 4] == b"AMQP" else int.from_bytes(data[pos : pos + 4], "big")
        if size < 8:
            break
        pos += size
    return starts


def mend(data: bytearray, old: bytes) -> None:
    """Give the one frame whose length changed its new size, so that what is inside it is reached at all."""
    change = len(data) - len(old)
    for at in reversed(frame_starts(old)):
        if at + 8 <= len(data) and data[at : at + 8] == old[at : at + 8] and data[at : at + 4] != b"AMQP":
            size = int.from_bytes(data[at : at + 4], "big") + change
            if 8 <= size < 1 << 32:
                data[at : at + 4] = size.to_bytes(4, "big")
            return


def splice(rng: random.Random, one: bytes, other: bytes) -> bytes:
    """Frames of the one, then frames of the other."""
    a = frame_starts(one) or [len(one)]
    b = frame_starts(other) or [0]
    return one[: rng.choice(a)] + other[rng.choice(b) :]


def mutate(rng: random.Random, pool: Sequence[bytes]) -> bytes:
    """A new input from those that there are."""
    data = bytearray(rng.choice(pool))
    if rng.random() < 0.4:
        data = bytearray(splice(rng, bytes(data), rng.choice(pool)))
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        if not data:
            data = bytearray(b"\x00")
        old = bytes(data)
        rng.choice(MUTATIONS)(rng, data)
        if len(data) != len(old) and rng.random() < 0.8:
            mend(data, old)
    return bytes(data[:MAX_BYTES])
