"""States of connection, session and link endpoints, and the tables of their transitions.

A missing transition is a protocol error if the peer sent the event, and a bug if this engine did; `advance` raises
`ProtocolError` for both. Compiled modules use the same numbers from states.pxd.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, TypeVar

from waymesh_amqp.errors import ILLEGAL_STATE, AmqpError

if TYPE_CHECKING:
    from waymesh_amqp.session import Session


class ConnectionState(IntEnum):
    """Spec: 2.4.6."""

    START = 0
    HDR_RCVD = 1
    HDR_SENT = 2
    HDR_EXCH = 3
    OPEN_PIPE = 4
    OC_PIPE = 5
    OPEN_RCVD = 6
    OPEN_SENT = 7
    CLOSE_PIPE = 8
    OPENED = 9
    CLOSE_RCVD = 10
    CLOSE_SENT = 11  # also the spec's DISCARDING: after a close with an error all but a close is ignored
    END = 12


class SessionState(IntEnum):
    """Spec: 2.5.5. END_PIPE: our end follows our begin, which the peer has not answered yet."""

    UNMAPPED = 0
    BEGIN_RCVD = 1
    BEGIN_SENT = 2
    MAPPED = 3
    END_PIPE = 4
    END_RCVD = 5
    END_SENT = 6  # also the spec's DISCARDING
    ENDED = 7


class LinkState(IntEnum):
    """Spec: 2.6.3 to 2.6.6. DETACH_PIPE: our detach follows our attach, which the peer has not answered yet."""

    DETACHED = 0
    ATTACH_RCVD = 1
    ATTACH_SENT = 2
    ATTACHED = 3
    DETACH_PIPE = 4
    DETACH_RCVD = 5
    DETACH_SENT = 6
    GONE = 7


# As plain names, as in states.pxd.
START, HDR_RCVD, HDR_SENT, HDR_EXCH, OPEN_PIPE, OC_PIPE, OPEN_RCVD, *_later = ConnectionState
OPEN_SENT, CLOSE_PIPE, OPENED, CLOSE_RCVD, CLOSE_SENT, END = _later
UNMAPPED, BEGIN_RCVD, BEGIN_SENT, MAPPED, END_PIPE, END_RCVD, END_SENT, ENDED = SessionState
DETACHED, ATTACH_RCVD, ATTACH_SENT, ATTACHED, DETACH_PIPE, DETACH_RCVD, DETACH_SENT, GONE = LinkState


class Event(StrEnum):
    """An event that changes a state: a frame or protocol header that is received (`<`) or sent (`>`)."""

    HEADER_IN = "header<"
    HEADER_OUT = "header>"
    OPEN_IN = "open<"
    OPEN_OUT = "open>"
    CLOSE_IN = "close<"
    CLOSE_OUT = "close>"
    BEGIN_IN = "begin<"
    BEGIN_OUT = "begin>"
    END_IN = "end<"
    END_OUT = "end>"
    ATTACH_IN = "attach<"
    ATTACH_OUT = "attach>"
    DETACH_IN = "detach<"
    DETACH_OUT = "detach>"


class ProtocolError(AmqpError):
    """An event that the endpoint's state does not allow."""


State = TypeVar("State", ConnectionState, SessionState, LinkState)
Table = Mapping[tuple[State, Event], State]

CONNECTION: Table[ConnectionState] = {
    (START, Event.HEADER_IN): HDR_RCVD,
    (START, Event.HEADER_OUT): HDR_SENT,
    (HDR_RCVD, Event.HEADER_OUT): HDR_EXCH,
    (HDR_SENT, Event.HEADER_IN): HDR_EXCH,
    (HDR_SENT, Event.OPEN_OUT): OPEN_PIPE,
    (OPEN_PIPE, Event.HEADER_IN): OPEN_SENT,
    (OPEN_PIPE, Event.CLOSE_OUT): OC_PIPE,
    (OC_PIPE, Event.HEADER_IN): CLOSE_SENT,
    (HDR_EXCH, Event.OPEN_IN): OPEN_RCVD,
    (HDR_EXCH, Event.OPEN_OUT): OPEN_SENT,
    (OPEN_RCVD, Event.OPEN_OUT): OPENED,
    (OPEN_SENT, Event.OPEN_IN): OPENED,
    (OPEN_SENT, Event.CLOSE_OUT): CLOSE_PIPE,
    (CLOSE_PIPE, Event.OPEN_IN): CLOSE_SENT,
    (CLOSE_PIPE, Event.CLOSE_IN): END,
    (OPENED, Event.CLOSE_IN): CLOSE_RCVD,
    (OPENED, Event.CLOSE_OUT): CLOSE_SENT,
    (CLOSE_RCVD, Event.CLOSE_OUT): END,
    (CLOSE_SENT, Event.CLOSE_IN): END,
    (CLOSE_SENT, Event.OPEN_IN): CLOSE_SENT,
}

SESSION: Table[SessionState] = {
    (UNMAPPED, Event.BEGIN_IN): BEGIN_RCVD,
    (UNMAPPED, Event.BEGIN_OUT): BEGIN_SENT,
    (BEGIN_RCVD, Event.BEGIN_OUT): MAPPED,
    (BEGIN_SENT, Event.BEGIN_IN): MAPPED,
    (BEGIN_SENT, Event.END_OUT): END_PIPE,
    (END_PIPE, Event.BEGIN_IN): END_SENT,
    (MAPPED, Event.END_IN): END_RCVD,
    (MAPPED, Event.END_OUT): END_SENT,
    (END_RCVD, Event.END_OUT): ENDED,
    (END_SENT, Event.END_IN): ENDED,
}

LINK: Table[LinkState] = {
    (DETACHED, Event.ATTACH_IN): ATTACH_RCVD,
    (DETACHED, Event.ATTACH_OUT): ATTACH_SENT,
    (ATTACH_RCVD, Event.ATTACH_OUT): ATTACHED,
    (ATTACH_RCVD, Event.DETACH_IN): DETACH_RCVD,
    (ATTACH_SENT, Event.ATTACH_IN): ATTACHED,
    (ATTACH_SENT, Event.DETACH_OUT): DETACH_PIPE,
    (DETACH_PIPE, Event.ATTACH_IN): DETACH_SENT,
    (ATTACHED, Event.DETACH_IN): DETACH_RCVD,
    (ATTACHED, Event.DETACH_OUT): DETACH_SENT,
    (DETACH_RCVD, Event.DETACH_OUT): GONE,
    (DETACH_SENT, Event.DETACH_IN): GONE,
}


def may(table: Table[State], state: int, event: Event) -> bool:
    """Whether the endpoint's state allows the event."""
    return (state, event) in table


def advance(table: Table[State], state: int, event: Event, ends: Session | None = None) -> State:
    """The state after the event. Raises `ProtocolError` (amqp:illegal-state) if the table has no such transition.

    `ends`: the session, for endpoints of sessions and links; see AmqpError.
    """
    kind = type(next(iter(table.values())))
    following = table.get((kind(state), event))
    if following is None:
        what = kind.__name__.removesuffix("State").lower()
        verb = "arrived" if event.endswith("<") else "was to be sent"
        raise ProtocolError(ILLEGAL_STATE, f"{event[:-1]} {verb} while the {what} is {kind(state).name}", ends)
    return following
