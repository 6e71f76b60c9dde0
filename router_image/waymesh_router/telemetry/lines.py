"""Records as lines of JSON.

A layout is a line with gaps for the values that vary; recurring values are part of it, so most records share one.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

import cython

from waymesh_schema.telemetry import DOUBLE, FLAG, INT, LONG, SHORT, TEXT, TIME, VERSION, Kind

LAYOUTS = 1024
"""Layouts that are kept for each kind."""

Row = tuple[Any, ...]
"""The values of a kind's own fields, in order: None, int, float, str, bool, list of str, dict of str to str or int."""

NUMBER = cython.declare(cython.int, 0)
WORD = cython.declare(cython.int, 1)
SWITCH = cython.declare(cython.int, 2)
OTHER = cython.declare(cython.int, 3)

_FORMS = {**dict.fromkeys((SHORT, INT, LONG, DOUBLE, TIME), NUMBER), TEXT: WORD, FLAG: SWITCH}
"""Format of a value, by its type."""


class LineWriter:
    """Writes the records of one kind, one router and one boot (milliseconds since 1970)."""

    def __init__(self, kind: Kind, mesh: str, router: str, boot: int) -> None:
        self._head = f'{{"v":{VERSION},"mesh":{_quoted(mesh)},"router":{_quoted(router)},"boot":{boot},"seq":'
        self._names = [field.name for field in kind.own]
        self._forms = [_FORMS.get(field.type, OTHER) for field in kind.own]
        self._recurring = [at for at, name in enumerate(self._names) if name in kind.recurring]
        self._varying = [at for at, name in enumerate(self._names) if name not in kind.recurring]
        self._added: list[str] = []
        self._layouts: dict[Row, list[str]] = {}

    def add(self, seq: cython.longlong, ts_us: cython.longlong, mono_us: cython.longlong, values: Row) -> None:
        """Add a record: its sequence number, its times in microseconds, its values."""
        added = self._added
        added.append(f'{self._head}{seq},"ts":{ts_us},"mono_us":{mono_us}')
        key = tuple([values[at] for at in self._recurring])
        layout: list[str] | None = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = self._new_layout(values)
        gap: cython.Py_ssize_t = 0
        for at in self._varying:
            added.append(layout[gap])
            added.append(_text(self._forms[at], values[at]))
            gap += 1
        added.append(layout[gap])

    def take(self) -> bytes:
        """The lines of the records since the last call."""
        added, self._added = self._added, []
        return "".join(added).encode()

    def _new_layout(self, values: Row) -> list[str]:
        """The constant parts around the values that vary."""
        if len(self._layouts) >= LAYOUTS:
            self._layouts.clear()
        layout, piece = [], ""
        for at, name in enumerate(self._names):
            piece += f',"{name}":'
            if at in self._varying:
                layout.append(piece)
                piece = ""
            else:
                piece += _text(self._forms[at], values[at])
        return [*layout, piece + "}\n"]


def _text(form: cython.int, value: Any) -> str:
    """A value as JSON."""
    if value is None:
        return "null"
    if form == NUMBER and type(value) is int:
        number: cython.longlong = value
        return f"{number}"  # compiled, several times as fast as str() of an int
    if form == NUMBER:
        return str(value)
    if form == WORD:
        return _quoted(value)
    if form == SWITCH:
        return "true" if value else "false"
    return json.dumps(value, separators=(",", ":"))
