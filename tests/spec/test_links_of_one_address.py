"""Links of one address that end one after the other: only the last one affects other links."""

from __future__ import annotations

from typing import Any

from tests.kit import frames
from tests.kit.pump import Peer, core_hub
from waymesh_amqp.performatives import Detach, Flow, Transfer


def granted(answers: list[Any]) -> list[tuple[int | None, bool | None]]:
    """Credit and drain of the flows for links."""
    flows = [answer for answer in answers if isinstance(answer, Flow) and answer.handle is not None]
    return [(flow.link_credit, flow.drain) for flow in flows]


def three_peers() -> tuple[Peer, Peer, Peer]:
    """With a session each, at one router."""
    hub = core_hub()
    one, two, three = (hub.peer().open().begin() for _ in range(3))
    return one, two, three


def test_credit_is_withdrawn_when_the_last_consumer_is_gone() -> None:
    sender, one, other = three_peers()
    one.send(frames.attach_receiver("r", 0))
    other.send(frames.attach_receiver("r", 0))
    assert granted(sender.send(frames.attach_sender("s", 0))) == [(250, False)]
    assert any(isinstance(answer, Detach) for answer in one.send(frames.detach(0)))
    assert granted(sender.take()) == []
    other.send(frames.detach(0))
    assert granted(sender.take()) == [(250, True)]
    assert "M0q" in sender.handler.addresses


def test_what_waits_goes_to_the_consumer_that_stays() -> None:
    sender, one, other = three_peers()
    one.send(frames.attach_receiver("r", 0))
    other.send(frames.attach_receiver("r", 0))
    sender.send(frames.attach_sender("s", 0))
    sender.send(frames.transfer(0))
    one.send(frames.detach(0))
    assert not any(isinstance(answer, Transfer) for answer in other.take())
    assert any(isinstance(answer, Transfer) for answer in other.send(frames.credit(1)))


def test_an_address_is_forgotten_with_the_last_link_of_any_kind() -> None:
    sender, one, other = three_peers()
    one.send(frames.attach_sender("s", 0))
    other.send(frames.attach_receiver("r", 0))
    sender.send(frames.attach_sender("s", 0))
    sender.send(frames.detach(0))
    other.send(frames.detach(0))
    assert "M0q" in one.handler.addresses
    one.send(frames.detach(0))
    assert "M0q" not in one.handler.addresses


def test_an_ended_session_with_many_links_gets_no_message() -> None:
    """Its links end in portions; a late flow must not open its window again. Spec: 2.5.6."""
    hub = core_hub()
    many, other, producer = (hub.peer().open().begin() for _ in range(3))
    many.conn.settings.links_at_once = 16
    for handle in range(40):
        many.send(frames.attach_receiver(f"r{handle}", handle), frames.credit(10, handle))
    other.send(frames.attach_receiver(), frames.credit(100))
    producer.send(frames.attach_sender())
    many.end.feed(frames.transfer(0, handle=99))  # ends the session
    assert many.conn.links == 40
    assert [session.losing for session in many.conn.losing] == [True]
    many.end.feed(frames.flow(incoming_window=1000, next_incoming_id=0))
    for number in range(60):
        producer.end.feed(frames.transfer(number))
    assert len([seen for seen in other.take() if isinstance(seen, Transfer)]) == 60
    assert not [seen for seen in many.take() if isinstance(seen, Transfer)]
