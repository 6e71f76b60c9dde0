"""Composite types: lists with named, typed fields, defined by tables. Spec: 1.4

Each table has the definition of the specification; decoding, encoding and error texts use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waymesh_amqp.codec_decode import MAX_DEPTH, Buffer, compound_header, decode_value
from waymesh_amqp.codec_encode import encode_into, pack_compound
from waymesh_amqp.codec_values import (
    Array,
    Described,
    Raw,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    symbol_array,
)
from waymesh_amqp.errors import DecodeError


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a field: the classes of its wire values (None: any), and conversions from and to them.

    `to_plain` may raise ValueError with the expected values.
    """

    name: str
    wire: tuple[type, ...] | None
    to_plain: Callable[[Any], Any] | None = None
    to_wire: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its Python name and kind. Encoding omits a value that equals `default`."""

    name: str
    kind: Kind
    mandatory: bool = False
    default: Any = None

    @property
    def wire_name(self) -> str:
        """The name in the specification."""
        return self.name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class Composite:
    """A described list: its name, numeric and symbolic descriptor, and its fields in order."""

    name: str
    code: int
    symbol: str
    fields: tuple[Field, ...]
    tolerant: bool = False  # octets behind the last field, inside of the list, are ignored

    def describes(self, descriptor: Any) -> bool:
        """Whether this is the numeric or symbolic descriptor of the type."""
        if type(descriptor) is Symbol:
            return descriptor == self.symbol
        return type(descriptor) is ULong and descriptor == self.code


def mandatory(name: str, kind: Kind) -> Field:
    """Make a mandatory field."""
    return Field(name, kind, mandatory=True)


def flag(name: str) -> Field:
    """Make a boolean field with default false."""
    return Field(name, BOOLEAN, default=False)


def _limited(limit: int) -> Callable[[int], int]:
    def to_plain(value: int) -> int:
        if value > limit:
            raise ValueError(f"expected 0 to {limit}, got {value}")
        return int(value)

    return to_plain


def limited(name: str, kind: Kind, limit: int) -> Kind:
    """Make a restricted unsigned type: 0 to `limit`."""
    return Kind(name, kind.wire, _limited(limit), kind.to_wire)


def _symbols(value: Symbol | Array) -> list[Symbol]:
    """The list of a field with multiple="true", from a single value or an array. Spec: 1.4"""
    if isinstance(value, Symbol):
        return [value]
    if value.code not in (0xA3, 0xB3) or value.descriptors:
        raise ValueError("expected symbols, got an array of another type")
    return value.values


def _one_or_array(names: Sequence[str]) -> Symbol | Array:
    """The wire value of such a field; a single name is a symbol: qdrouterd requires that on links between routers."""
    return Symbol(names[0]) if len(names) == 1 else symbol_array(names)


def _symbol_keys(value: Mapping[Any, Any]) -> dict[Any, Any]:
    return {Symbol(key) if type(key) is str else key: item for key, item in value.items()}


ANY = Kind("any value", None)
BOOLEAN = Kind("boolean", (bool,))
UBYTE = Kind("ubyte", (UByte,), int, UByte)
USHORT = Kind("ushort", (UShort,), int, UShort)
UINT = Kind("uint", (UInt,), int, UInt)
ULONG = Kind("ulong", (ULong,), int, ULong)
TIMESTAMP = Kind("timestamp", (Timestamp,), int, Timestamp)
STRING = Kind("string", (str,), None, str)
SYMBOL = Kind("symbol", (Symbol,), None, Symbol)
BINARY = Kind("binary", (bytes,), None, bytes)
MAP = Kind("map", (dict,))
FIELDS = Kind("fields", (dict,), None, _symbol_keys)
SYMBOLS = Kind("symbol or array of symbols", (Symbol, Array), _symbols, _one_or_array)
MECHANISMS = Kind("symbol or array of symbols", (Symbol, Array), _symbols, symbol_array)
DELIVERY_STATE = Kind("delivery state", (Described,))


def read_fields(buf: Buffer, pos: int, end: int, composite: Composite, depth: int) -> tuple[list[Any], list[int]]:
    """Decode the list of a composite, from its constructor: the values, the start of each, and the end of the last."""
    if pos >= end:
        raise DecodeError(f"{composite.name}: not enough bytes", pos)
    code = buf[pos]
    if code == 0x45:
        return [], [pos + 1]
    if code not in (0xC0, 0xD0):
        raise DecodeError(f"{composite.name}: not a list", pos)
    count, start, after = compound_header(buf, pos + 1, end, code == 0xD0)
    if count > len(composite.fields):
        raise DecodeError(f"{composite.name}: {count} fields, expected at most {len(composite.fields)}", pos)
    if depth >= MAX_DEPTH:
        raise DecodeError(f"nested deeper than {MAX_DEPTH}", pos)
    values: list[Any] = []
    starts = [start]
    for _ in range(count):
        value, start = decode_value(buf, start, after, depth + 1)
        values.append(value)
        starts.append(start)
    if start != after and not composite.tolerant:
        raise DecodeError(f"{composite.name}: {after - start} bytes too many for count {count}", start)
    return values, starts


def to_plain(composite: Composite, values: Sequence[Any]) -> dict[str, Any]:
    """Check the values of a composite; returns them by name, without absent ones. Raises DecodeError with the field."""
    if len(values) > len(composite.fields):
        raise DecodeError(f"{composite.name}: {len(values)} fields, expected at most {len(composite.fields)}")
    result: dict[str, Any] = {}
    for field, value in zip(composite.fields, values, strict=False):
        if value is not None:
            result[field.name] = _checked(composite, field, value)
    for field in composite.fields:
        if field.mandatory and field.name not in result:
            raise DecodeError(f"{composite.name}: mandatory field {field.wire_name} is missing")
    return result


def _checked(composite: Composite, field: Field, value: Any) -> Any:
    kind = field.kind
    if kind.wire is not None and type(value) not in kind.wire:
        got = type(value).__name__.lower()
        raise DecodeError(f"{composite.name}: field {field.wire_name}: expected {kind.name}, got {got}")
    if kind.to_plain is None:
        return value
    try:
        return kind.to_plain(value)
    except ValueError as error:
        raise DecodeError(f"{composite.name}: field {field.wire_name}: {error}") from None


def write_composite(out: bytearray, composite: Composite, source: Any) -> None:
    """Append a composite with the attributes of `source`, without absent fields at the end.

    Raises ValueError for a mandatory field that is None.
    """
    body = bytearray()
    used = kept = 0
    for count, field in enumerate(composite.fields, 1):
        value = getattr(source, field.name)
        if value is None:
            if field.mandatory:
                raise ValueError(f"{composite.name}: mandatory field {field.wire_name} is None")
            body.append(0x40)
        elif not field.mandatory and value == field.default and type(value) is type(field.default):
            body.append(0x40)
        else:
            to_wire = field.kind.to_wire
            encode_into(body, value if to_wire is None or type(value) is Raw else to_wire(value))
            used, kept = count, len(body)
    out += bytes((0x00, 0x53, composite.code))
    if used == 0:
        out.append(0x45)
    else:
        pack_compound(out, 0xC0, used, body[:kept])
