"""First parts of deliveries for other routers: counted for their sender, and gone with it."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer, core_of
from tests.unit.core.interior_peer import Interior, edge_hub
from waymesh_amqp.message import Message, encode_message

PART = encode_message(Message(to="elsewhere", body=bytes(1000)))


@pytest.fixture
def hub() -> Hub:
    made = edge_hub()
    Interior(made).conn.streams = True
    return made


def begin(hub: Hub, **over: bool) -> Peer:
    """A client that has sent a part of a message."""
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender(address=None), frames.transfer(0, PART, more=True, **over))
    return peer


@pytest.mark.parametrize("settled", [False, True])
def test_a_part_counts_until_the_message_is_complete(hub: Hub, settled: bool) -> None:
    core, peer = core_of(hub), begin(hub, settled=settled)
    assert len(core.credit.gathering.deliveries) == 1
    assert peer.conn.kept > len(PART)
    peer.send(frames.transfer(None, b""))
    assert (len(core.credit.gathering.deliveries), core.budget.kept) == (0, 0)


def test_many_parts_are_sent_on_in_portions(hub: Hub) -> None:
    core = core_of(hub)
    for _ in range(20):
        begin(hub)
    core.credit.tick_streams(core.now)
    left = len(core.credit.gathering.deliveries)
    assert 10 < left < 20
    core.context.portions.run()
    assert 0 < len(core.credit.gathering.deliveries) < left


def test_a_sender_that_is_gone_leaves_nothing(hub: Hub) -> None:
    core, peer = core_of(hub), begin(hub)
    peer.kill()
    assert (len(core.credit.gathering.deliveries), core.budget.kept) == (0, 0)
