"""Classes for the AMQP types without an equivalent Python type. Spec: 1.6

Python types map to AMQP types as follows: None null, bool boolean, int long, float double, str string, bytes binary,
uuid.UUID uuid, list list, dict map. All other AMQP types have subclasses that behave like their base, so
`UInt(5) == 5`. Ranges are checked when a value is encoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


class Symbol(str):
    """symbol: ASCII. Spec: 1.6.21"""

    __slots__ = ()


class Char(str):
    """char: a single Unicode character. Spec: 1.6.16"""

    __slots__ = ()


class UByte(int):
    """ubyte, 8 bits unsigned. Spec: 1.6.3"""

    __slots__ = ()


class UShort(int):
    """ushort, 16 bits unsigned. Spec: 1.6.4"""

    __slots__ = ()


class UInt(int):
    """uint, 32 bits unsigned. Spec: 1.6.5"""

    __slots__ = ()


class ULong(int):
    """ulong, 64 bits unsigned. Spec: 1.6.6"""

    __slots__ = ()


class Byte(int):
    """byte, 8 bits signed. Spec: 1.6.7"""

    __slots__ = ()


class Short(int):
    """short, 16 bits signed. Spec: 1.6.8"""

    __slots__ = ()


class Int(int):
    """int, 32 bits signed. Spec: 1.6.9"""

    __slots__ = ()


class Timestamp(int):
    """timestamp: milliseconds since 1970-01-01T00:00Z, 64 bits signed. Spec: 1.6.17"""

    __slots__ = ()


class Float32(float):
    """float: IEEE 754 binary32. Spec: 1.6.11"""

    __slots__ = ()


class Decimal32(bytes):
    """decimal32: the 4 bytes of IEEE 754 decimal32 as on the wire. Spec: 1.6.13"""

    __slots__ = ()


class Decimal64(bytes):
    """decimal64: the 8 bytes of IEEE 754 decimal64 as on the wire. Spec: 1.6.14"""

    __slots__ = ()


class Decimal128(bytes):
    """decimal128: the 16 bytes of IEEE 754 decimal128 as on the wire. Spec: 1.6.15"""

    __slots__ = ()


class Raw(bytes):
    """An encoded value with its constructor; `encode` copies it unchanged. `decode` never returns it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Described:
    """A value with a descriptor: any value, in practice a Symbol or ULong. Spec: 1.2"""

    descriptor: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Array:
    """Values of one type. Spec: 1.6.24

    `code` is the constructor byte of all elements (0xA3 for short symbols). In an array of a described type,
    `descriptors` has the descriptors, outermost first, and `values` the values without them.
    """

    code: int
    values: list[Any] = field(default_factory=list)
    descriptors: tuple[Any, ...] = ()


def symbol_array(names: Iterable[str]) -> Array:
    """An array of symbols, in the smallest encoding."""
    symbols = [Symbol(name) for name in names]
    return Array(0xB3 if any(len(s) > 255 for s in symbols) else 0xA3, symbols)
