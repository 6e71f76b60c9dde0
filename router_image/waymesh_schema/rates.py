"""Rates of new connections, written as connections/seconds. An extension of Waymesh."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from .convert import names
from .errors import SchemaError

UNLIMITED = "none"
"""No limit, where a value is inherited otherwise."""
MOST = 2**31 - 1
LONGEST_S = 86400
_RATE = re.compile(r"([0-9]{1,10})/([0-9]{1,5})")


class Rate(NamedTuple):
    """New connections in a number of seconds; both are whole numbers above 0."""

    connections: int
    seconds: int

    def __str__(self) -> str:
        return f"{self.connections}/{self.seconds}"


def parse_rate(text: str | None) -> Rate | None:
    """The rate; None for None and `none`. Raises ValueError."""
    if text is None or text == UNLIMITED:
        return None
    match = _RATE.fullmatch(text)
    count, seconds = (int(match[1]), int(match[2])) if match else (0, 0)
    if not (1 <= count <= MOST and 1 <= seconds <= LONGEST_S):
        reason = f"must be connections/seconds, as in 60/10, with 1 to {MOST} connections in 1 to {LONGEST_S} seconds"
        raise ValueError(f"{reason}, or {UNLIMITED}, not {text[:60]!r}")
    return Rate(count, seconds)


def rates(entity: str, values: Mapping[str, Any]) -> None:
    """Check the rates among the values of an entity; raises SchemaError."""
    for attribute in ("connectionRate", "connectionRatePerUser", "connectionRatePerHost"):
        _check(entity, attribute, "", values.get(attribute))


def rates_of_users(entity: str, values: Mapping[str, Any]) -> None:
    """Check `userConnectionRates` and `blockedUsers` of a vhost; raises SchemaError."""
    blocked = names(values["blockedUsers"])
    for user, text in (values["userConnectionRates"] or {}).items():
        if user in blocked:
            raise SchemaError(entity, "userConnectionRates", f"{user!r} is among the blockedUsers, too")
        _check(entity, "userConnectionRates", f"{user!r}: ", text)
    for attribute, users in (("blockedUsers", blocked), ("userConnectionRates", values["userConnectionRates"] or {})):
        if "*" in users:
            raise SchemaError(entity, attribute, "* is not a user")


def rate_of_clients(entity: str, values: Mapping[str, Any]) -> None:
    """A listener's rate counts opens of AMQP clients; raises SchemaError if it cannot have any."""
    if values["connectionRate"] is None:
        return
    if values["role"] == "inter-router":
        raise SchemaError(entity, "connectionRate", "is not for role inter-router: it is for clients")


def _check(entity: str, attribute: str, about: str, text: Any) -> None:
    if text is not None and not isinstance(text, str):
        raise SchemaError(entity, attribute, f"{about}must be text, as in 60/10, not {text!r}")
    try:
        parse_rate(text)
    except ValueError as error:
        raise SchemaError(entity, attribute, f"{about}{error}") from None
