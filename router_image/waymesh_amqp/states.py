"""State tables of connection, session and link endpoints.

Each table maps (state, event) to the next state. Events ending in `<` arrive, those ending in `>` are sent by us. A
pair that is missing is a protocol error when it arrives and a bug when we send it; `advance` raises `ProtocolError` for
both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from waymesh_amqp.errors import ILLEGAL_STATE, AmqpError

if TYPE_CHECKING:
    from waymesh_amqp.session import Session


class ProtocolError(AmqpError):
    """An event that the endpoint's state does not allow."""


Table = Mapping[tuple[str, str], str]

# Spec: 2.4.6. DISCARDING: we have sent close with an error; all but a close is ignored (Spec: 2.4.6.1).
CONNECTION: Table = {
    ("START", "header<"): "HDR_RCVD",
    ("START", "header>"): "HDR_SENT",
    ("HDR_RCVD", "header>"): "HDR_EXCH",
    ("HDR_SENT", "header<"): "HDR_EXCH",
    ("HDR_SENT", "open>"): "OPEN_PIPE",
    ("OPEN_PIPE", "header<"): "OPEN_SENT",
    ("OPEN_PIPE", "close>"): "OC_PIPE",
    ("OC_PIPE", "header<"): "CLOSE_SENT",
    ("HDR_EXCH", "open<"): "OPEN_RCVD",
    ("HDR_EXCH", "open>"): "OPEN_SENT",
    ("OPEN_RCVD", "open>"): "OPENED",
    ("OPEN_SENT", "open<"): "OPENED",
    ("OPEN_SENT", "close>"): "CLOSE_PIPE",
    ("CLOSE_PIPE", "open<"): "CLOSE_SENT",
    ("CLOSE_PIPE", "close<"): "END",
    ("OPENED", "close<"): "CLOSE_RCVD",
    ("OPENED", "close>"): "CLOSE_SENT",
    ("CLOSE_RCVD", "close>"): "END",
    ("CLOSE_SENT", "close<"): "END",
    ("CLOSE_SENT", "open<"): "CLOSE_SENT",
}

# Spec: 2.5.5.
SESSION: Table = {
    ("UNMAPPED", "begin<"): "BEGIN_RCVD",
    ("UNMAPPED", "begin>"): "BEGIN_SENT",
    ("BEGIN_RCVD", "begin>"): "MAPPED",
    ("BEGIN_SENT", "begin<"): "MAPPED",
    ("BEGIN_SENT", "end>"): "END_PIPE",
    ("END_PIPE", "begin<"): "END_SENT",
    ("MAPPED", "end<"): "END_RCVD",
    ("MAPPED", "end>"): "END_SENT",
    ("END_RCVD", "end>"): "ENDED",
    ("END_SENT", "end<"): "ENDED",
}

# Spec: 2.6.3 to 2.6.6.
LINK: Table = {
    ("DETACHED", "attach<"): "ATTACH_RCVD",
    ("DETACHED", "attach>"): "ATTACH_SENT",
    ("ATTACH_RCVD", "attach>"): "ATTACHED",
    ("ATTACH_RCVD", "detach<"): "DETACH_RCVD",
    ("ATTACH_SENT", "attach<"): "ATTACHED",
    ("ATTACH_SENT", "detach>"): "DETACH_PIPE",
    ("DETACH_PIPE", "attach<"): "DETACH_SENT",
    ("ATTACHED", "detach<"): "DETACH_RCVD",
    ("ATTACHED", "detach>"): "DETACH_SENT",
    ("DETACH_RCVD", "detach>"): "GONE",
    ("DETACH_SENT", "detach<"): "GONE",
}


def advance(table: Table, what: str, state: str, event: str, concerns: Session | None = None) -> str:
    """The state after the event. Raises `ProtocolError` (amqp:illegal-state) where the table has no such pair.

    `concerns`: the session of the endpoint, where it is one of a session or link.
    """
    following = table.get((state, event))
    if following is None:
        verb = "arrived" if event.endswith("<") else "was to be sent"
        raise ProtocolError(ILLEGAL_STATE, f"{event[:-1]} {verb} while the {what} is {state}", concerns)
    return following
