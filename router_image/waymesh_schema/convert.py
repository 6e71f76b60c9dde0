"""Converts values of files and requests to the type of an attribute. Raises ValueError with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from .model import BOOLEAN, ENTITY_ID, ENUM, INTEGER, LIST, MAP, NAMES, PATH, PORT, PROPERTIES, STRING, Attribute

WELL_KNOWN_PORTS: Mapping[str, int] = {"amqp": 5672, "amqps": 5671, "http": 80, "https": 443}
"""Ports of known service names; others are looked up in the system's table at run time."""

_WORDS = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}
_DIGITS = re.compile(r"[+-]?[0-9]{1,19}")
_SERVICE = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9][A-Za-z0-9_.+-]*")
_RESERVED_PROPERTIES = frozenset(
    ("product", "version", "failover-server-list", "network-host", "port", "scheme", "hostname")
)
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1


def convert(attribute: Attribute, value: Any) -> Any:
    """The value converted to the attribute's type. Raises ValueError with the reason."""
    return _CONVERTERS[attribute.type](attribute, value)


def _show(value: Any) -> str:
    text = repr(str(value)) if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _string(attribute: Attribute, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string" + ("" if attribute.hidden else f", not {_show(value)}"))
    text = str(value)
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("contains NUL or half of a surrogate pair")
    return text


def _integer(attribute: Attribute, value: Any) -> int:
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = int(value)
    elif isinstance(value, str) and _DIGITS.fullmatch(value):
        number = int(value)
    if number is None:
        raise ValueError(f"must be a whole number, not {_show(value)}")
    number = clamp(attribute, number)
    low = _LONG_MIN if attribute.minimum is None else attribute.minimum
    high = _LONG_MAX if attribute.maximum is None else attribute.maximum
    if number < low:
        raise ValueError(f"must be at least {low}, not {number}")
    if number > high:
        raise ValueError(f"must be at most {high}, not {_show(number)}")
    return number


def names(value: str | None) -> tuple[str, ...]:
    """The items of a value of type `names`, without blanks around them; each one once."""
    items = (item.strip() for item in (value or "").split(","))
    return tuple(dict.fromkeys(item for item in items if item))


def clamp(attribute: Attribute, number: int) -> int:
    """The number, or the bound named by `clamped` if the number is beyond it."""
    if attribute.clamped == "minimum" and attribute.minimum is not None:
        return max(number, attribute.minimum)
    if attribute.clamped == "maximum" and attribute.maximum is not None:
        return min(number, attribute.maximum)
    return number


def _boolean(attribute: Attribute, value: Any) -> bool:
    word = str(int(value)) if isinstance(value, int) else value
    found = _WORDS.get(word.lower()) if isinstance(word, str) else None
    if found is None:
        raise ValueError(f"must be yes or no (true, false, on, off, 1, 0), not {_show(value)}")
    return found


def _enum(attribute: Attribute, value: Any) -> str:
    allowed = attribute.values or ()
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"must be one of {', '.join(allowed)}, not {_show(value)}")
    return str(value)


def _port(attribute: Attribute, value: Any) -> str:
    if isinstance(value, str) and _SERVICE.fullmatch(value):
        return str(value)
    try:
        number = _integer(attribute, value)
    except ValueError:
        number = -1
    if not 0 <= number <= 65535:
        raise ValueError(f"must be a port number from 0 to 65535 or a service name, not {_show(value)}")
    return str(number)


def _names(attribute: Attribute, value: Any) -> str:
    if isinstance(value, (list, tuple)):
        items = [_string(attribute, item) for item in value]
        if divided := [item for item in items if "," in item]:
            raise ValueError(f"{_show(divided[0])}: must not contain a comma, which separates the items")
        return ",".join(items)
    return _string(attribute, value)


def _list(attribute: Attribute, value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"must be a list, not {_show(value)}")
    return list(value)


def _map(attribute: Attribute, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a map, not {_show(value)}")
    return {_string(attribute, key): item for key, item in value.items()}


def _properties(attribute: Attribute, value: Any) -> dict[str, Any]:
    properties = _map(attribute, value)
    for key in properties:
        if not key.isascii():
            raise ValueError(f"key {key!r} must be ASCII")
        if key.startswith(("qd.", "x-opt-qd.")) or key in _RESERVED_PROPERTIES:
            raise ValueError(f"key {key!r} is reserved for the router")
    return properties


_CONVERTERS: Mapping[str, Callable[[Attribute, Any], Any]] = {
    STRING: _string,
    PATH: _string,
    ENTITY_ID: _string,
    INTEGER: _integer,
    BOOLEAN: _boolean,
    ENUM: _enum,
    PORT: _port,
    NAMES: _names,
    LIST: _list,
    MAP: _map,
    PROPERTIES: _properties,
}
