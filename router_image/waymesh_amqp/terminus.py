"""Source, target and coordinator of a link, and the error of close, end, detach and rejected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from waymesh_amqp.codec_values import Described, Raw
from waymesh_amqp.errors import DecodeError
from waymesh_amqp.fields import (
    ANY,
    DELIVERY_STATE,
    FIELDS,
    STRING,
    SYMBOL,
    SYMBOLS,
    UINT,
    Composite,
    Field,
    Kind,
    flag,
    limited,
    mandatory,
    to_plain,
    write_composite,
)

TerminusKind = Literal["source", "target", "coordinator", "other"]
"""`other`: a type that the specification does not define; only its bytes are known."""

_DURABILITY = limited("terminus durability", UINT, 2)  # Spec: 3.5.5

# Spec: 3.5.3
_SOURCE = Composite(
    "source",
    0x28,
    "amqp:source:list",
    (
        Field("address", ANY),
        Field("durable", _DURABILITY, default=0),
        Field("expiry_policy", SYMBOL),
        Field("timeout", UINT, default=0),
        flag("dynamic"),
        Field("dynamic_node_properties", FIELDS),
        Field("distribution_mode", SYMBOL),
        Field("filter", FIELDS),
        Field("default_outcome", DELIVERY_STATE),
        Field("outcomes", SYMBOLS),
        Field("capabilities", SYMBOLS),
    ),
)

# Spec: 3.5.4
_TARGET = Composite(
    "target",
    0x29,
    "amqp:target:list",
    (
        Field("address", ANY),
        Field("durable", _DURABILITY, default=0),
        Field("expiry_policy", SYMBOL),
        Field("timeout", UINT, default=0),
        flag("dynamic"),
        Field("dynamic_node_properties", FIELDS),
        Field("capabilities", SYMBOLS),
    ),
)

# Spec: 4.5.1
_COORDINATOR = Composite("coordinator", 0x30, "amqp:coordinator:list", (Field("capabilities", SYMBOLS),))

_COMPOSITES: dict[TerminusKind, Composite] = {"source": _SOURCE, "target": _TARGET, "coordinator": _COORDINATOR}


@dataclass(slots=True)
class Terminus:
    """A terminus of a link. Fields that its kind does not have are None.

    `raw` has the bytes as received. As long as no field is assigned, `encode` returns them, including unknown fields.
    Therefore assign a new dict or list instead of changing one in place. `dataclasses.replace` does not copy `raw`, as
    the copy has other fields.
    """

    kind: TerminusKind
    address: Any = None
    durable: int = 0
    expiry_policy: str | None = None
    timeout: int = 0
    dynamic: bool = False
    dynamic_node_properties: dict[Any, Any] | None = None
    distribution_mode: str | None = None
    filter: dict[Any, Any] | None = None
    default_outcome: Described | None = None
    outcomes: list[str] | None = None
    capabilities: list[str] | None = None
    raw: bytes = field(default=b"", init=False, compare=False, repr=False)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name != "raw":
            object.__setattr__(self, "raw", b"")

    def encode(self) -> bytes:
        """The bytes as received if nothing was assigned since, otherwise a new encoding."""
        if self.raw:
            return self.raw
        out = bytearray()
        write_composite(out, _COMPOSITES[self.kind], self)
        return bytes(out)


def terminus_of(value: Any) -> Terminus:
    """The terminus of a decoded value. Raises DecodeError."""
    if isinstance(value, Described):
        for kind, composite in _COMPOSITES.items():
            if composite.describes(value.descriptor):
                return Terminus(kind, **to_plain(composite, _list_of(composite, value)))
        return Terminus("other")
    raise DecodeError("a terminus that is not a described value")


@dataclass(slots=True)
class ErrorInfo:
    """The error of a close, end, detach or rejected. Spec: 2.8.14

    `raw` has the bytes of a received error; `encode` returns them.
    """

    condition: str
    description: str | None = None
    info: dict[Any, Any] | None = None
    raw: bytes = field(default=b"", init=False, compare=False, repr=False)

    def encode(self) -> bytes:
        """The encoded error, with its descriptor."""
        if self.raw:
            return self.raw
        out = bytearray()
        write_composite(out, _ERROR, self)
        return bytes(out)


# Spec: 2.8.14
_ERROR = Composite(
    "error",
    0x1D,
    "amqp:error:list",
    (mandatory("condition", SYMBOL), Field("description", STRING), Field("info", FIELDS)),
)


def error_of(value: Any) -> ErrorInfo:
    """The error of a decoded value. Raises DecodeError."""
    if not isinstance(value, Described) or not _ERROR.describes(value.descriptor):
        raise DecodeError("error: not described as an error")
    return ErrorInfo(**to_plain(_ERROR, _list_of(_ERROR, value)))


def _list_of(composite: Composite, value: Described) -> list[Any]:
    if not isinstance(value.value, list):
        raise DecodeError(f"{composite.name}: not a list")
    return value.value


def _raw(value: Terminus | ErrorInfo) -> Raw:
    return Raw(value.encode())


def _source(value: Any) -> Terminus:
    terminus = terminus_of(value)
    if terminus.kind not in ("source", "other"):
        raise ValueError(f"expected a source, got a {terminus.kind}")
    return terminus


def _target(value: Any) -> Terminus:
    terminus = terminus_of(value)
    if terminus.kind == "source":
        raise ValueError("expected a target, got a source")
    return terminus


SOURCE = Kind("source", (Described,), _source, _raw)
TARGET = Kind("target", (Described,), _target, _raw)
ERROR = Kind("error", (Described,), error_of, _raw)
