"""A peer that has closed its transport, so that it takes nothing more, although its input is not handled completely."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection


def peer_left(connection: Connection) -> None:
    """Handle only the messages and outcomes that the peer sent before it left.

    Its attaches and flows are skipped (frame_reader.py): a link for it would only cost memory and time. No delivery is
    begun for it: this one would be lost if it is settled, and else wait until the rest of the input is handled.
    """
    connection.left = True
    for session in connection.sessions.values():
        session.remote_window = 0
