"""Sans-IO AMQP 1.0 engine: bytes in, events out, bytes out. No socket, no clock, no thread."""

from __future__ import annotations

from waymesh_amqp import _engine

_choice = _engine.install()


def engine() -> str:
    """The engine of this process: "compiled" or "interpreted"."""
    return _choice
