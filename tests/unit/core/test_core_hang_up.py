"""Ending a client's transport when the router drains or stops."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, core_hub, core_of
from waymesh_router.core.hang_up import hang_up


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def test_hanging_up_ends_the_transport_after_what_was_to_be_told(hub: Hub) -> None:
    receiver, sender = hub.peer().open().begin(), hub.peer().open().begin()
    receiver.send(frames.attach_receiver(), frames.credit(1))
    sender.send(frames.attach_sender(), frames.transfer(0))
    receiver.end.feed(frames.disposition(0))
    hang_up(sender.conn, "stopped")
    assert sender.conn.over
    sender.end.collect()
    found = sender.take()
    assert [type(f).__name__ for f in found] == ["Disposition"]
    assert sender.conn.id not in core_of(hub).connections
