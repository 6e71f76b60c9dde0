"""Ends of routed links: a detach is answered after the container has answered, an end and a close at once.

Spec: 2.6.4, 2.5.4, 2.4.3.

A client that got its answer may at once come back through another router, and then the container has to know that it
was gone: durable subscriptions are found under the same name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.kit import frames
from tests.spec.test_spec_link_routes import Pair
from waymesh_amqp.performatives import Attach, Close, Detach, End, ErrorInfo, Terminus
from waymesh_router.core.link_routing.endings import ANSWER_S

ENDS: dict[str, tuple[Callable[[], bytes], type]] = {
    "end": (frames.end, End),
    "close": (frames.close, Close),
}


@pytest.fixture(params=[1, 10000], ids=["bytewise", "whole"])
def pair(request: pytest.FixtureRequest) -> Pair:
    """A client that reads from a container through a router."""
    pair = Pair(request.param)
    pair.joined(frames.attach_receiver("in"), frames.attach_sender("client.in"))
    return pair


def test_a_detach_is_answered_when_the_container_has_answered(pair: Pair) -> None:
    assert not pair.client.send(frames.detach())
    assert [type(p) for p in pair.broker.take()] == [Detach]
    pair.broker.send(frames.detach())
    assert [type(p) for p in pair.client.take()] == [Detach]


@pytest.mark.parametrize("what", ["end", "close"])
def test_an_end_and_a_close_are_answered_at_once(pair: Pair, what: str) -> None:
    """Also while a detach waits for its answer, which the client does not need any more."""
    say, answer = ENDS[what]
    pair.client.send(frames.attach_receiver("two", 1))
    pair.broker.send(frames.attach_sender("client.two", 1))
    pair.client.take()
    assert not pair.client.send(frames.detach(1))
    assert [type(p) for p in pair.client.send(say())] == [answer]
    assert [(type(p), p.closed) for p in pair.broker.take()] == [(Detach, True), (Detach, False)]
    assert pair.client.conn.done == (what == "close")
    pair.broker.send(frames.detach(0), frames.detach(1))
    assert not pair.client.take()


def test_a_detach_is_answered_when_the_container_is_gone(pair: Pair) -> None:
    pair.client.send(frames.detach())
    pair.broker.kill()
    assert [type(p) for p in pair.client.take()] == [Detach]


def test_a_container_that_does_not_answer_is_not_waited_for_without_bound(pair: Pair) -> None:
    core: Any = pair.hub.handler
    pair.client.send(frames.detach())
    core.now += ANSWER_S - 0.1
    core.routed_attaches.tick()
    pair.hub.turn()
    assert not pair.client.take()
    core.now += 0.2
    core.routed_attaches.tick()
    pair.hub.turn()
    assert [type(p) for p in pair.client.take()] == [Detach]
    pair.broker.send(frames.detach())
    assert not pair.client.take()
    assert not pair.broker.conn.done


def test_the_answer_says_what_the_container_said(pair: Pair) -> None:
    pair.client.send(frames.detach(closed=False))
    error = ErrorInfo("amqp:not-found", "no subscription of that name", {"name": "in"})
    pair.broker.send(frames.detach(closed=True, error=error))
    assert pair.client.take() == [Detach(0, closed=True, error=error)]


def test_what_was_ended_can_be_used_again_before_the_answer(pair: Pair) -> None:
    """Handle and name are the client's again once it has said that it ended them."""
    pair.client.send(frames.detach())
    assert not pair.client.send(frames.attach_receiver("in"))
    detached, attached = pair.broker.take()
    assert (type(detached), type(attached)) == (Detach, Attach)
    assert attached.name == "client.in"
    pair.broker.send(frames.detach(), frames.attach_sender("client.in"))
    answers = pair.client.take()
    assert [(type(p), p.handle) for p in answers] == [(Detach, 0), (Attach, 1)]


def test_a_subscription_that_is_looked_up_to_be_ended(pair: Pair) -> None:
    """JMS unsubscribe: what the container says to the closing detach is what the client hears. Source: none."""
    core: Any = pair.hub.handler
    core.linkroutes.add({"identity": "all", "pattern": "#", "direction": "both", "connection": "broker"})
    pair.client.send(frames.attach_receiver("durable", 1, source=None, target=Terminus("target")))
    pair.broker.send(frames.attach_sender("client.durable", 1, source=Terminus("source", address="q")))
    pair.client.take()
    assert not pair.client.send(frames.detach(1))
    pair.broker.send(frames.detach(1, error=ErrorInfo("amqp:resource-locked", "in use")))
    (answer,) = pair.client.take()
    assert answer.error == ErrorInfo("amqp:resource-locked", "in use")


def test_a_client_that_goes_without_waiting(pair: Pair) -> None:
    pair.client.send(frames.close())
    pair.client.kill()
    assert pair.client.conn.done
    pair.broker.send(frames.detach())
    assert not pair.client.take()
    assert not pair.broker.conn.done


def test_what_the_container_ends_is_answered_at_once(pair: Pair) -> None:
    assert [type(p) for p in pair.broker.send(frames.detach())] == [Detach]
    assert [type(p) for p in pair.client.take()] == [Detach]
