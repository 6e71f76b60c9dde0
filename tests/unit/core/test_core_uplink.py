"""The edge's side of edge mode, in memory: which connection is active, and what is lost with it."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, core_of
from tests.unit.core.interior_peer import (
    FIRST,
    LAST,
    Interior,
    attached,
    client,
    credit_of,
    edge_hub,
    states,
    uplink_of,
    wait,
)
from waymesh_amqp.errors import NOT_ALLOWED
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.performatives import ErrorInfo, Transfer


@pytest.fixture
def hub() -> Hub:
    return edge_hub()


def test_links_of_a_new_uplink_in_the_order_of_dispatch(hub: Hub) -> None:
    client(hub, frames.attach_receiver(address="in"))
    client(hub, frames.attach_sender(address="out"))
    interior = Interior(hub)
    assert interior.links() == [*FIRST, ("receiver", "in"), ("sender", "out"), *LAST]
    assert interior.capabilities("receiver", "E") == ["qd.router-edge-downlink"]


def test_the_oldest_of_the_others_takes_over(hub: Hub) -> None:
    first, second, third = (Interior(hub, name) for name in "ABC")
    assert (second.links(), third.links()) == ([], [])
    first.peer.peer.kill()
    assert (second.links(), third.links()) == ([*FIRST, *LAST], [])
    again = Interior(hub, "A")
    assert uplink_of(hub).active is second.conn
    second.peer.close()
    assert uplink_of(hub).active is third.conn
    third.peer.peer.kill()
    assert uplink_of(hub).active is again.conn
    again.peer.peer.kill()
    assert uplink_of(hub).active is None


def test_one_that_refuses_the_links_is_left_for_the_next(hub: Hub) -> None:
    refusing, other = Interior(hub, "A"), Interior(hub, "B")
    refusing.peer.detach(refusing.link("receiver", "E"), error=ErrorInfo(NOT_ALLOWED))
    assert refusing.conn.over
    assert other.links() == [*FIRST, *LAST]


def test_a_lost_uplink_ends_what_was_on_it_and_what_waited_for_it(hub: Hub) -> None:
    interior = Interior(hub, credit=1)
    producer, _ = client(hub, frames.attach_sender())
    interior.tell("M0q", True)
    producer.send(frames.transfer(0), frames.transfer(1))
    assert len(interior.link("sender", "q").transfers) == 1
    interior.peer.peer.kill()
    answers = producer.take()
    assert states(answers) == ["modified", "released"]
    assert credit_of(answers) == 0
    later = Interior(hub)
    later.tell("M0q", True)
    assert credit_of(producer.take()) == 250


def test_a_lost_uplink_ends_the_large_message_that_goes_up(hub: Hub) -> None:
    """It was never complete beyond. Its producer can go on with the next one."""
    interior = Interior(hub)
    producer, _ = client(hub, frames.attach_sender())
    interior.tell("M0q", True)
    producer.send(frames.transfer(0, frames.message(b"x" * 3000)[:2000], more=True))
    assert len(interior.link("sender", "q").transfers) == 1
    interior.peer.peer.kill()
    answers = producer.send(frames.transfer(None, b"x" * 1005))
    assert states(answers) == ["released"]
    later = Interior(hub, "B")
    later.tell("M0q", True)
    producer.send(frames.transfer(1))
    assert later.link("sender", "q").bodies[0].endswith(b"hello")


def test_a_lost_uplink_aborts_the_large_message_that_comes_down(hub: Hub) -> None:
    interior = Interior(hub)
    consumer, _ = client(hub, frames.attach_receiver(), frames.credit(10))
    interior.send(interior.link("receiver", "q"), frames.message(b"x" * 3000)[:2000], settled=False, more=True)
    assert [answer.more for answer in consumer.take() if isinstance(answer, Transfer)] == [True]
    interior.peer.peer.kill()
    assert [answer.aborted for answer in consumer.take() if isinstance(answer, Transfer)] == [True]
    later = Interior(hub, "B")
    later.send(later.link("receiver", "q"), Message(body="whole"))
    assert sum(isinstance(answer, Transfer) for answer in consumer.take()) == 1


def test_without_an_uplink_what_leads_beyond_is_released(hub: Hub) -> None:
    producer, answers = client(hub, frames.attach_sender(address=None))
    assert credit_of(answers) == 250
    assert states(producer.send(frames.transfer(0, encode_message(Message(to="q"))))) == ["released"]


def test_an_anonymous_sender_uses_the_link_without_an_address(hub: Hub) -> None:
    interior = Interior(hub)
    producer, _ = client(hub, frames.attach_sender(address=None))
    message = encode_message(Message(to="q", body="x"))
    producer.send(frames.transfer(0, message))
    (got,) = interior.link("sender", None).bodies
    assert decode_message(got).to == "q"
    assert decode_message(got).message_annotations is None


def test_a_draining_edge_takes_nothing_more_from_beyond(hub: Hub) -> None:
    interior = Interior(hub)
    client(hub, frames.attach_receiver(address="in"))
    client(hub, frames.attach_sender(address="out"))
    uplink_of(hub).withdraw()
    hub.turn()
    assert interior.links() == [*FIRST, *LAST, ("sender", "out")]
    client(hub, frames.attach_receiver(address="new"))
    interior.peer.peer.kill()
    later = Interior(hub, "B")
    assert later.links() == [*FIRST, ("sender", "out"), *LAST]
    uplink_of(hub).rejoin()
    hub.turn()
    assert set(later.links()) == {*FIRST, *LAST, ("sender", "out"), ("receiver", "in"), ("receiver", "new")}


def test_nothing_uses_an_uplink_whose_many_links_end_in_portions(hub: Hub) -> None:
    """See Handler.ending. Clients go on meanwhile."""
    core = core_of(hub)
    first, second = Interior(hub, "A"), Interior(hub, "B")
    anonymous, _ = client(hub, frames.attach_sender(address=None))
    old, _ = client(hub, frames.attach_sender(address="old"))
    client(hub, frames.attach_receiver(address="in"))
    first.tell("M0old", True)
    first.conn.settings.links_at_once = 2
    first.peer.peer.kill()
    assert not first.conn.end_links(1)
    wait(hub, 12)
    old.send(frames.transfer())
    assert states(anonymous.send(frames.transfer(0, encode_message(Message(to="up"))))) == ["released"]
    _, answers = client(hub, frames.attach_sender(address="new"))
    _, more = client(hub, frames.attach_receiver(address="newer"))
    assert attached(answers)
    assert attached(more)
    assert second.links() == []
    assert list(core.ending) == [first.conn]
    assert first.conn.end_links(1000)
    hub.turn()
    added = [("sender", "new"), ("receiver", "newer")]
    assert sorted(second.links()[3:-5]) == sorted([("receiver", "in"), ("sender", "old"), *added])
    assert states(old.take()) == ["released"]
    assert [link for link in core.links.values() if link.connection is first.conn] == []
