"""Disconnects clients when the router drains or stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection


def hang_up(conn: Connection, reason: str) -> None:
    """End a client's transport without a close frame, so that the client reconnects at once.

    All client libraries reconnect then; python-qpid-proton does not after a close with amqp:connection:forced, nor do
    several others after a close without an error. Source: docs/clients.md. `reason` is written to the log.
    """
    conn.flush()  # outcomes that were not sent yet
    conn.eof(reason)
