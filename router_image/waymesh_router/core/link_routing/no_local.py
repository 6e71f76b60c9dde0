"""The no-local filter of JMS on link routes: a receiver gets no messages from its own client.

A container sees all clients of a router as one peer and would filter the messages of all of them. So the client's
router removes the filter and applies it itself: messages from such a client have its container-id as a router
annotation, and the router accepts messages with it on behalf of the receiver.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from waymesh_amqp.codec_encode import encode
from waymesh_amqp.codec_values import Described, Symbol
from waymesh_amqp.errors import DecodeError
from waymesh_amqp.filters import NO_LOCAL_DESCRIPTORS
from waymesh_amqp.transfer import whole_transfer
from waymesh_router.core.forwarding.annotations import PREFIX, decoded_pair, section, split_map, value_of_section
from waymesh_router.core.forwarding.sections import Sections
from waymesh_router.core.link_kinds import ROUTED

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach
    from waymesh_router.core.link_routing.route_candidates import UpstreamLink
    from waymesh_router.core.model import RouterConnection, RouterLink

CLIENT = Symbol(PREFIX + "client")
"""Annotation: container-id of the client that sent the message."""
_sections = Sections()


def requested_filters(attach: Attach) -> dict[Any, Any]:
    """The no-local filters of a receiver's attach, by name."""
    source = attach.source if attach.role else None
    filters = {} if source is None else source.filter or {}
    return {name: f for name, f in filters.items() if isinstance(f, Described) and f.descriptor in NO_LOCAL_DESCRIPTORS}


def without_filters(attach: Attach, taken: dict[Any, Any]) -> Attach:
    """The attach without these filters."""
    assert attach.source is not None
    left = {name: value for name, value in (attach.source.filter or {}).items() if name not in taken}
    return replace(attach, source=replace(attach.source, filter=left or None))


def confirm_filters(answer: Attach, taken: dict[Any, Any]) -> None:
    """Report in the answer that the filters are in effect. Spec: 3.5.3."""
    if answer.source is not None:
        answer.source = replace(answer.source, filter={**(answer.source.filter or {}), **taken})


def link_forwarded(conn: RouterConnection, lk: RouterLink, route: UpstreamLink, taken: dict[Any, Any]) -> None:
    """A client's link was forwarded without the filters `taken`: from now on, recognize the client's own messages."""
    client = "" if conn.remote is None else str(conn.remote.container_id)
    if taken:
        route.taken = taken
        lk.client = client
        if conn.no_local:
            return
        conn.no_local = True
        for session in conn.sessions.values():
            for other in session.links:
                if other is not None and other.kind == ROUTED and not other.is_sender:  # type: ignore[attr-defined]
                    other.client = client  # type: ignore[attr-defined]
    elif conn.no_local and not lk.is_sender:
        lk.client = client


def marked(data: bytes, more: bool, client: str) -> bytes:
    """The first frame of a message with the client's container-id in its annotations.

    Unchanged if the annotations continue in a later frame or are invalid.
    """
    if not _sections.scan(whole_transfer(data, more)):
        return data
    try:
        others, count, pairs = _pairs(data)
    except DecodeError:
        return data
    ours = encode(CLIENT) + encode(client)
    annotations = section(others + b"".join(pairs) + ours, count + len(pairs) + 1)
    return data[: _sections.head] + annotations + data[_sections.rest :]


def is_from(data: bytes, client: str) -> bool:
    """Whether a message's first frame has the client's container-id in its annotations."""
    _sections.scan(whole_transfer(data, False))
    try:
        return (CLIENT, client) in map(decoded_pair, _pairs(data)[2])
    except DecodeError:
        return False


def _pairs(data: bytes) -> tuple[bytes, int, list[bytes]]:
    """The message-annotations that the scan found: those of clients, their number, and those of routers.

    Raises DecodeError.
    """
    if _sections.head == _sections.rest:
        return b"", 0, []
    return split_map(data, value_of_section(data, _sections.head))[:3]
