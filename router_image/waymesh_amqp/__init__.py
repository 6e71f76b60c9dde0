"""Sans-IO AMQP 1.0 engine: bytes in, events and bytes out. It has no socket, clock or thread."""

from __future__ import annotations

from waymesh_amqp import _engine

_choice = _engine.install()


def engine() -> str:
    """The engine that this process runs: "compiled" or "interpreted"."""
    return _choice
