"""Deliveries of a link route that wait in the router for the container's session window. Spec: 2.5.6, 2.7.5."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.spec.test_spec_link_routes import Pair
from waymesh_amqp.performatives import Transfer
from waymesh_router.core.forwarding.buffer_budget import RECORD_BYTES

PIECE = b"x" * 8000
HELD_BYTES = 1 << 18
LONG = 40
"""Pieces of more than 256 KiB together, from where on the sender's session is held."""


@pytest.fixture
def pair() -> Pair:
    """A client's link with credit to a container whose session window is closed."""
    pair = Pair()
    assert not pair.client.send(frames.attach_sender("out"))
    pair.broker.take()
    pair.broker.send(
        frames.begin(remote_channel=0, incoming_window=0),
        frames.attach_receiver("client.out"),
        frames.credit(10, incoming_window=0),
    )
    pair.client.take()
    return pair


def pieces(delivery: int, number: int) -> list[bytes]:
    """The begin of a delivery."""
    rest = [frames.transfer(None, PIECE, more=True) for _ in range(number - 1)]
    return [frames.transfer(delivery, PIECE, more=True), *rest]


def abort() -> bytes:
    return frames.transfer(None, b"", aborted=True)


def links(pair: Pair) -> tuple[Any, Any]:
    """The router's link to the container and the one from the client."""
    core: Any = pair.hub.handler
    (out,) = [link for link in core.links.values() if link.is_sender]
    return out, out.partner


def opened_window(pair: Pair) -> list[Any]:
    """What the container sees when it opens its window."""
    seen = pair.broker.send(frames.credit(10, incoming_window=1000))
    return [p for p in seen if isinstance(p, Transfer)]


def test_an_aborted_delivery_that_waits_alone_holds_the_sender_no_longer(pair: Pair) -> None:
    pair.client.send(*pieces(0, LONG))
    out, lk = links(pair)
    assert out.held == LONG * len(PIECE) + RECORD_BYTES
    assert lk.session.holds == 1
    pair.client.send(abort())
    assert out.held == 0
    assert lk.session.holds == 0
    assert opened_window(pair) == []
    pair.client.send(frames.transfer(1, b"next"))
    assert len([p for p in pair.broker.take() if isinstance(p, Transfer)]) == 1


def test_an_aborted_delivery_that_waits_behind_others_counts_no_longer(pair: Pair) -> None:
    pair.client.send(frames.transfer(0, b"first"), *pieces(1, LONG))
    out, lk = links(pair)
    assert lk.session.holds == 1
    pair.client.send(abort())
    assert out.held == len(b"first") + RECORD_BYTES
    assert lk.session.holds == 0
    assert [t.delivery_tag for t in opened_window(pair)] != []
    assert out.held == 0


def test_the_sender_is_held_as_long_as_what_waits_before_the_aborted_delivery_is_too_much(pair: Pair) -> None:
    whole = [*pieces(0, LONG), frames.transfer(None, PIECE)]
    pair.client.send(*whole, *pieces(1, 2), abort())
    out, lk = links(pair)
    assert out.held == (LONG + 1) * len(PIECE) + RECORD_BYTES
    assert lk.session.holds == 1
    assert len(opened_window(pair)) > 0
    assert (out.held, lk.session.holds) == (0, 0)


def test_short_deliveries_hold_the_sender_too(pair: Pair) -> None:
    """Their records take memory."""
    out, lk = links(pair)
    lk.capacity = 2000
    sent = 0
    while not lk.session.holds and sent < 800:
        pair.client.send(frames.transfer(sent, b"x", settled=True))
        sent += 1
    assert sent == HELD_BYTES // (RECORD_BYTES + 1) + 1
    assert out.held == sent * (RECORD_BYTES + 1)
    opened_window(pair)
    pair.broker.send(frames.credit(1000, incoming_window=1000))
    assert (out.held, lk.session.holds) == (0, 0)
