"""The AMQP 1.0 type system: value classes, `encode` and `decode`. Spec: 1"""

from __future__ import annotations

from waymesh_amqp.codec_decode import MAX_DEPTH, Buffer, decode
from waymesh_amqp.codec_encode import encode, encode_into
from waymesh_amqp.codec_values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    Int,
    Raw,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    symbol_array,
)
from waymesh_amqp.errors import DecodeError

__all__ = [
    "MAX_DEPTH",
    "Array",
    "Buffer",
    "Byte",
    "Char",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "DecodeError",
    "Described",
    "Float32",
    "Int",
    "Raw",
    "Short",
    "Symbol",
    "Timestamp",
    "UByte",
    "UInt",
    "ULong",
    "UShort",
    "decode",
    "encode",
    "encode_into",
    "symbol_array",
]
