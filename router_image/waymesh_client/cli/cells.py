"""Formats of table cells, as in qdstat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_CLASSES = {
    "M": "mobile",
    "R": "router",
    "A": "area",
    "L": "local",
    "T": "topo",
    "C": "link-in",
    "E": "link-in",
    "D": "link-out",
    "F": "link-out",
    "H": "edge",
}


def plain(value: Any) -> str:
    """The value as text; "" for None."""
    return "" if value is None else str(value)


def commas(value: Any) -> str:
    """A count with a comma between thousands."""
    return f"{value:,}" if isinstance(value, int) else plain(value)


def address_class(key: str | None) -> str:
    """Class of an address key such as `M0orders`: its first character."""
    if not key:
        return ""
    return _CLASSES.get(key[0], f"unknown: {key[0]}")


def address_text(key: str | None) -> str:
    """Address of an address key."""
    if not key:
        return ""
    return key[2:] if key[0] == "M" else key[1:]


def address_phase(key: str | None) -> str:
    """Phase of an address key; only mobile addresses have one."""
    return key[1:2] if key and key[0] == "M" else ""


def duration(seconds: int | None) -> str:
    """Days and time of day, `000:00:01:30`; `-` for never."""
    if seconds is None:
        return "-"
    days, rest = divmod(int(seconds), 86400)
    return f"{days:03d}:{_time_of_day(rest)}"


def clock(seconds: int | None) -> str:
    """Hours, minutes and seconds; `-` for none."""
    return _time_of_day(int(seconds)) if seconds else "-"


def _time_of_day(seconds: int) -> str:
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02d}:{minute:02d}:{second:02d}"


def size(value: int | None) -> str:
    """Bytes with a unit of 1024."""
    if value is None:
        return "-"
    number = float(value)
    units = ["TiB", "GiB", "MiB", "KiB"]
    unit = "B"
    while number >= 1024 and units:
        number, unit = number / 1024, units.pop()
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.2f} {unit}"


def text_list(values: Any) -> str:
    """A list of strings as Python writes it; empty for none."""
    return str([str(value) for value in values or []])


def without_slash(text: str | None) -> str:
    """A tenant without its trailing slash."""
    return plain(text).removesuffix("/")


def authentication(connection: Mapping[str, Any]) -> str:
    """How the peer authenticated: `no-auth`, `anonymous-user`, `user(mechanism)`."""
    if not connection.get("isAuthenticated"):
        return "no-auth"
    mechanism = plain(connection.get("sasl"))
    if mechanism == "ANONYMOUS":
        return "anonymous-user"
    mechanism = {"GSSAPI": "Kerberos", "EXTERNAL": "x.509"}.get(mechanism, mechanism)
    user = connection.get("user")
    return f"{user}({mechanism})" if user else mechanism


def security(connection: Mapping[str, Any]) -> str:
    """How the connection is protected: `no-security` or `protocol(cipher)`."""
    if not connection.get("isEncrypted"):
        return "no-security"
    if connection.get("sasl") == "GSSAPI":
        return "Kerberos"
    return f"{plain(connection.get('sslProto'))}({plain(connection.get('sslCipher'))})"
