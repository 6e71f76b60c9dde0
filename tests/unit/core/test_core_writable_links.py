"""A connection with many links whose output has room again."""

from __future__ import annotations

from tests.kit import frames
from tests.kit.frames import Seen
from tests.unit.core.many_deliveries import MOST, Scene
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.performatives import Transfer


def test_every_link_of_a_connection_goes_on() -> None:
    scene = Scene()
    peer, count = scene.peer(), 1_200
    for number in range(count):
        peer.send(frames.attach_receiver(f"r{number}", number, address=f"a{number}"))
    sender = scene.peer()
    sender.send(frames.attach_sender(address=None))
    for number in range(count):
        sender.send(frames.transfer(number, encode_message(Message(to=f"a{number}", body="x")), settled=True))
    for link in scene.core.links.values():
        if link.connection is peer.conn:
            link.credit = 1
    peer.session().remote_window = MOST
    scene.core.on_writable(peer.conn)
    while scene.core.context.portions:
        scene.portion()
    got = [f.performative for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]
    assert sorted(t.handle for t in got) == list(range(count))
