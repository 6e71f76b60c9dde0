"""Attaches at an edge router, in memory, that wait for what the interior router says of link routes."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer, core_of
from tests.unit.core.interior_peer import Interior, attached, client, credit_of, edge_hub, route, wait
from waymesh_amqp.performatives import Detach
from waymesh_router.core.edge.messages import NOT_FOUND, OK
from waymesh_router.core.portions import COST_A_TURN


@pytest.fixture
def hub() -> Hub:
    return edge_hub()


def test_an_attach_waits_for_the_answer(hub: Hub) -> None:
    interior = Interior(hub, link_routes=True)
    consumer, answers = client(hub, frames.attach_receiver(address="lr.a"))
    producer, more = client(hub, frames.attach_sender(address="lr.b"))
    assert not attached(answers + more)
    one, other = interior.lookups()
    assert [(one.address, one.sender), (other.address, other.sender)] == [("lr.a", False), ("lr.b", True)]
    assert one.correlation_id != other.correlation_id
    interior.answer(other, NOT_FOUND, False, False)
    assert attached(producer.take())
    assert not attached(consumer.take())
    interior.answer(one, NOT_FOUND, False, False)
    assert attached(consumer.take())
    interior.answer(one, NOT_FOUND, False, False)  # again
    assert consumer.take() == []


def test_what_is_not_looked_up(hub: Hub) -> None:
    interior = Interior(hub, link_routes=True)
    assert attached(client(hub, frames.attach_sender(address=None))[1])
    assert attached(client(hub, frames.attach_sender(address="_topo/0/A/$management"))[1])
    assert interior.lookups() == []


def test_an_attach_for_a_link_route_is_passed_up(hub: Hub) -> None:
    interior = Interior(hub, link_routes=True)
    consumer, _ = client(hub, frames.attach_receiver(name="mine", address="lr.a"))
    interior.answer(interior.lookups()[0], OK, True, True)
    assert attached(consumer.take())
    assert "mine" in interior.link("receiver", "lr.a").attach.name
    assert "M0lr.a" not in core_of(hub).addresses


def test_a_routed_link_ends_with_the_uplink(hub: Hub) -> None:
    interior = Interior(hub, link_routes=True)
    consumer, _ = client(hub, frames.attach_receiver(name="mine", address="lr.a"))
    interior.answer(interior.lookups()[0], OK, True, True)
    consumer.take()
    interior.peer.peer.kill()
    (error,) = [answer.error for answer in consumer.take() if isinstance(answer, Detach)]
    assert error is not None
    assert error.condition == "qd:routed-link-lost"
    assert not consumer.conn.over


def test_an_attach_for_a_link_route_without_container_is_refused(hub: Hub) -> None:
    interior = Interior(hub, link_routes=True)
    consumer, _ = client(hub, frames.attach_receiver(address="lr.a"))
    interior.answer(interior.lookups()[0], OK, True, False)
    (error,) = [answer.error for answer in consumer.take() if isinstance(answer, Detach)]
    assert error is not None
    assert error.condition == "qd:no-route-to-dest"


@pytest.mark.parametrize("how", ["late", "lost", "detached"])
def test_without_an_answer_it_is_refused_so_that_the_client_retries(hub: Hub, how: str) -> None:
    interior = Interior(hub, link_routes=True)
    consumer, _ = client(hub, frames.attach_receiver(address="lr.a"))
    if how == "late":
        wait(hub, 2.9)
        assert consumer.take() == []
        wait(hub, 0.2)
    elif how == "lost":
        interior.peer.peer.kill()
    else:
        interior.peer.detach([link for link in interior.peer.active() if link.address == "made"][1])
        wait(hub, 0.1)
    (error,) = [answer.error for answer in consumer.take() if isinstance(answer, Detach)]
    assert error is not None
    assert error.condition == "amqp:resource-limit-exceeded"
    assert "not known yet" in str(error.description)
    assert "M0lr.a" not in core_of(hub).addresses


def test_a_client_that_leaves_meanwhile_is_forgotten(hub: Hub) -> None:
    interior = Interior(hub, link_routes=True)
    consumer, _ = client(hub, frames.attach_receiver(address="lr.a"))
    other, _ = client(hub, frames.attach_receiver(address="lr.b"))
    consumer.kill()
    other.send(frames.detach())
    for request in interior.lookups():
        interior.answer(request, NOT_FOUND, False, False)
    assert not {"M0lr.a", "M0lr.b"} & set(core_of(hub).addresses)
    assert not any(address in ("lr.a", "lr.b") for _, address in interior.links())


def test_a_link_route_whose_container_is_here_is_not_looked_up(hub: Hub) -> None:
    interior = Interior(hub, link_routes=True)
    broker = route(hub)
    _, answers = client(hub, frames.attach_sender(address="lr.a"))
    assert attached(answers)
    assert credit_of(answers) == 10
    assert [link.address for link in broker.links] == ["lr.a"]
    assert interior.lookups() == []


def refused(peer: Peer) -> list[int]:
    """Handles of the links that were refused since the last look."""
    return [answer.handle for answer in peer.take() if isinstance(answer, Detach)]


def finish(hub: Hub) -> None:
    """Do all portions."""
    while core_of(hub).context.portions:
        core_of(hub).context.portions.run()


@pytest.mark.parametrize("how", ["late", "lost"])
def test_many_attaches_are_refused_in_portions(hub: Hub, how: str) -> None:
    interior = Interior(hub, link_routes=True)
    consumer, _ = client(hub, *[frames.attach_receiver(f"r{n}", n, address=f"lr.{n}") for n in range(COST_A_TURN)])
    requests = interior.lookups()
    assert len(requests) == COST_A_TURN
    interior.answer(requests[1], NOT_FOUND, False, False)
    consumer.take()
    if how == "late":
        wait(hub, 3.1)
    else:
        interior.peer.peer.kill()
    first = refused(consumer)
    assert 0 < len(first) < COST_A_TURN // 4
    assert first == [0, *range(2, len(first) + 1)], "oldest first, without the answered one"
    consumer.send(frames.detach(COST_A_TURN - 1))
    finish(hub)
    assert sorted(first + refused(consumer)) == [0, *range(2, COST_A_TURN - 1)]
    assert not consumer.conn.over


def test_attaches_for_the_next_uplink_wait_while_those_of_the_lost_one_are_refused(hub: Hub) -> None:
    lost = Interior(hub, link_routes=True)
    following = Interior(hub, "B", link_routes=True)
    consumer, _ = client(hub, *[frames.attach_receiver(f"r{n}", n, address=f"lr.{n}") for n in range(COST_A_TURN)])
    lost.peer.peer.kill()
    first = refused(consumer)
    assert 0 < len(first) < COST_A_TURN
    other, answers = client(hub, frames.attach_receiver(address="lr.a"))
    assert not answers
    (request,) = following.lookups()
    finish(hub)
    assert sorted(first + refused(consumer)) == list(range(COST_A_TURN))
    assert other.take() == []
    following.answer(request, NOT_FOUND, False, False)
    assert attached(other.take())
    wait(hub, 3.1)
    assert other.take() == []


def test_an_answer_that_comes_before_its_attach_is_refused_counts(hub: Hub) -> None:
    interior = Interior(hub, link_routes=True)
    consumer, _ = client(hub, *[frames.attach_receiver(f"r{n}", n, address=f"lr.{n}") for n in range(COST_A_TURN)])
    requests = interior.lookups()
    wait(hub, 3.1)
    first = refused(consumer)
    for number in (COST_A_TURN - 1, len(first)):
        interior.answer(requests[number], NOT_FOUND, False, False)
        assert attached(consumer.take())
    finish(hub)
    assert refused(consumer) == list(range(len(first) + 1, COST_A_TURN - 1))
