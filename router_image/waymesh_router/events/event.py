"""The machine-readable part of a log line: the id of its event, the peer and details."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_router.core.model import RouterConnection

MAX_CHARACTERS = 200
"""Maximum length in the log of names that a peer has chosen."""
INTER_ROUTER = "inter-router"
_BEGIN = "[event="
_WORD = re.compile(r"[\w.:;@/%*+\[\]-]+")


@dataclass(frozen=True, slots=True)
class Event:
    """`who`: the peer, by its user, host (with the port), listener, connector and router, as far as known. `detail`:
    further values, which are also in the text of the line. No value may be a secret."""

    kind: LogEvent
    who: Mapping[str, str] = field(default_factory=dict)
    detail: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def host(self) -> str:
        """The address of the peer, without the port; "" if it is not known."""
        return self.who.get("host", "").rpartition(":")[0]

    @property
    def suffix(self) -> str:
        """The end of a line of text: id and `who`. Values that could be mistaken for other fields are JSON strings."""
        fields = " ".join(f"{name}={_value(text)}" for name, text in self.who.items())
        return f" {_BEGIN}{self.kind} {fields}]" if fields else f" {_BEGIN}{self.kind}]"

    @property
    def fields(self) -> dict[str, str | int]:
        """The members of a line in JSON."""
        return {"event": self.kind.value, **self.who, **self.detail}


class Log(Protocol):
    """Writes a line."""

    def __call__(self, module: str, level: str, text: str, event: Event | None = None, /) -> None:
        """Write it if the level is enabled."""


class ModuleLog(Protocol):
    """Writes a line of one module."""

    def __call__(self, level: str, text: str, event: Event | None = None, /) -> None:
        """Write it if the level is enabled."""


def about(event: LogEvent, conn: RouterConnection, /, **detail: str | int) -> Event:
    """An event of a connection."""
    return Event(event, who(conn), {"connection": conn.id, **detail})


def who(conn: RouterConnection) -> dict[str, str]:
    """The peer of a connection. `user` is missing until it has logged in."""
    found = {"user": short(conn.user)} if conn.user else {}
    if conn.role == INTER_ROUTER and conn.remote is not None:
        found["router"] = short(conn.remote.container_id)
    return found | at(conn.origin, conn.peer.host, conn.settings.client)


def at(origin: str, host: str, connector: bool = False) -> dict[str, str]:
    """The peer of a listener, or of a connector."""
    return {"host": host, "connector" if connector else "listener": origin}


def without_event(text: str) -> str:
    """The text of a line, changed so that no part of it looks like an event: peers can choose parts of it."""
    return text.replace(_BEGIN, r"[event\x3d")


def short(text: str | None) -> str:
    """The text, truncated if it is long; "" for None. The log escapes unprintable characters."""
    if text is None or len(text) <= MAX_CHARACTERS:
        return text or ""
    return text[:MAX_CHARACTERS] + "…"


def _value(text: str) -> str:
    if _WORD.fullmatch(text):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable()).replace("[", r"\u005b")  # not taken for an event
