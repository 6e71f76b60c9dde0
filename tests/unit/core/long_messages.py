"""A client at an edge router that sends long messages, and the interior router that takes them."""

from __future__ import annotations

from tests.kit import frames
from tests.kit.answering import Attached
from tests.kit.pump import Hub, Peer, core_of
from tests.unit.core.interior_peer import Interior
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.performatives import Transfer

PIECE = bytes(15_000)
LONG = 10
"""Pieces of a long message."""


def interior(hub: Hub) -> Interior:
    """It takes such links."""
    peer = Interior(hub, credit=10)
    peer.conn.streams = True
    return peer


def client(hub: Hub) -> Peer:
    """An anonymous sender."""
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender(address=None))
    return peer


def begin(peer: Peer, pieces: int, number: int = 0, handle: int = 0) -> None:
    """The first pieces of a message."""
    head = encode_message(Message(to="elsewhere", body=PIECE))
    peer.send(frames.transfer(number, head, more=True, handle=handle))
    for _ in range(pieces - 1):
        peer.send(frames.transfer(None, PIECE, more=True, handle=handle))


def uplinks(peer: Interior) -> list[Attached]:
    """The senders of the edge router without an address: the one for all messages, and those for long ones."""
    return [link for link in peer.peer.active() if not link.attach.role and link.address is None]


def tick(hub: Hub, seconds: float = 1.0) -> None:
    core = core_of(hub)
    core.now += seconds
    core.credit.tick_streams(core.now)
    while core.context.portions:
        core.context.portions.run()
    hub.turn()


def parts(link: Attached) -> int:
    return len([seen for seen in link.transfers if isinstance(seen.performative, Transfer)])
