"""Autolinks of a router: links that containers get, what they carry, and what happens when they fail or go."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import Container
from tests.kit.pump import Hub, core_hub, core_of
from waymesh_amqp.errors import NOT_ALLOWED
from waymesh_amqp.performatives import ErrorInfo
from waymesh_router.core.containers.autolink import ACTIVE, ATTACHING, FAILED, INACTIVE, QUIESCING, AutoLink
from waymesh_router.core.telemetry_hooks import TelemetryHooks

MANY = 50
"""More than a portion has."""


class Telemetry(TelemetryHooks):
    def __init__(self) -> None:
        self.states: list[tuple[str | None, str | None]] = []

    def autolink(self, auto: AutoLink, before: str | None, after: str | None) -> None:
        self.states.append((before, after))


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def add(hub: Hub, direction: str = "out", **attrs: Any) -> AutoLink:
    """An autolink to the connection `broker`."""
    autolinks = core_of(hub).autolinks
    autolinks.add({"identity": "1", "direction": direction, "address": "q", "connection": "broker", **attrs})
    hub.turn()
    found: AutoLink | None = autolinks.find(str(attrs.get("identity", "1")))
    assert found is not None
    return found


def wait(hub: Hub, seconds: float) -> None:
    core = core_of(hub)
    core.now += seconds
    core.autolinks.tick(core.now)
    hub.turn()


@pytest.mark.parametrize("first", ["entity", "container"])
@pytest.mark.parametrize("direction", ["in", "out"])
def test_a_container_gets_its_link_whichever_comes_first(hub: Hub, first: str, direction: str) -> None:
    if first == "entity":
        assert add(hub, direction).status == INACTIVE
        container = Container(hub)
    else:
        container = Container(hub)
        add(hub, direction)
    assert [(link.address, link.attach.role) for link in container.links] == [("q", direction == "in")]
    auto = core_of(hub).autolinks.find("1")
    assert auto is not None
    assert auto.status == ACTIVE
    address = core_of(hub).addresses[auto.key]
    assert (len(address.producers), len(address.consumers)) == ((1, 0) if direction == "in" else (0, 1))


def test_each_connection_of_the_container_has_a_link(hub: Hub) -> None:
    auto = add(hub)
    one, other = Container(hub), Container(hub)
    assert len(one.links) == len(other.links) == 1
    assert one.links[0].attach.name != other.links[0].attach.name
    one.peer.kill()
    assert auto.status == ACTIVE
    other.close()
    assert (auto.status, auto.ends) == (INACTIVE, {})


@pytest.mark.parametrize("place", [{"connection": "else"}, {"connection": None, "containerId": "X"}])
def test_other_containers_get_none(hub: Hub, place: dict[str, Any]) -> None:
    add(hub, **place)
    assert Container(hub).links == []


def test_messages_go_to_the_container_and_come_from_it(hub: Hub) -> None:
    add(hub, "out")
    add(hub, "in", identity="2", phase=0, address="r")
    container = Container(hub)
    producer = hub.peer().open().begin()
    producer.send(frames.attach_sender(address="q"), frames.transfer(0))
    consumer = hub.peer().open().begin()
    consumer.send(frames.attach_receiver(address="r"), frames.credit(10))
    out, incoming = container.links
    assert out.bodies == [frames.message()]
    container.send(frames.transfer(0, channel=incoming.channel, handle=incoming.handle))
    assert [f.payload for f in consumer.frames() if isinstance(f, frames.Seen) and f.payload] == [frames.message()]


def test_without_a_consumer_the_container_gets_no_credit(hub: Hub) -> None:
    add(hub, "in", phase=0)
    container = Container(hub)
    assert not any(flow.link_credit for flow in container.links[0].flows)
    hub.peer().open().begin().send(frames.attach_receiver(address="q"), frames.credit(1))
    assert container.links[0].flows[-1].link_credit


@pytest.mark.parametrize(("condition", "retry_s"), [("amqp:not-found", 0.5), (NOT_ALLOWED, 10.0)])
def test_a_refused_link_is_tried_again(hub: Hub, condition: str, retry_s: float) -> None:
    auto = add(hub)
    container = Container(hub)
    assert auto.status == ACTIVE
    container.refusal = ErrorInfo(condition, "not today")
    container.detach(container.links[0], error=container.refusal)
    assert (auto.status, auto.last_error) == (FAILED, "not today")
    wait(hub, retry_s - 0.1)
    assert len(container.links) == 1
    container.refusal = None
    wait(hub, 0.1)
    assert len(container.links) == 2
    assert (auto.status, auto.last_error) == (ACTIVE, None)


def test_an_answer_without_a_terminus_is_a_refusal(hub: Hub) -> None:
    auto = add(hub)
    container = Container(hub, credit=0)
    container.refusal = ErrorInfo("amqp:not-found", "no queue")
    container.detach(container.links[0])
    wait(hub, 0.5)
    assert len(container.links) == 2
    assert (auto.status, auto.last_error) == (FAILED, "no queue")
    assert "M0q" not in core_of(hub).addresses


def test_a_container_that_does_not_answer_stays_attaching(hub: Hub) -> None:
    auto = add(hub)
    container = Container(hub)
    container.answers = False
    container.detach(container.links[0])
    wait(hub, 0.5)
    assert auto.status == ATTACHING
    wait(hub, 100.0)
    assert len(container.links) == 2, "it is asked once"


def test_a_removed_autolink_ends_its_links_and_frees_the_address(hub: Hub) -> None:
    add(hub)
    container = Container(hub)
    core = core_of(hub)
    assert len(core.autolinks) == 1
    core.autolinks.remove("1")
    hub.turn()
    assert container.active() == []
    assert (len(core.autolinks), core.autolinks.find("1"), core.addresses) == (0, None, {})
    assert Container(hub).links == [], "later connections get none"


def test_a_quiesced_autolink_takes_nothing_more_and_goes_when_all_is_settled(hub: Hub) -> None:
    auto = add(hub)
    container = Container(hub)
    core = core_of(hub)
    place = ("connection", "broker")
    producer = hub.peer().open().begin()
    producer.send(frames.attach_sender(address="q"), frames.transfer(0))
    core.autolinks.quiesce("1")
    hub.turn()
    assert (auto.status, core.autolinks.quiescing_at(place)) == (QUIESCING, True)
    wait(hub, 10.0)
    assert container.active(), "a delivery has no outcome yet"
    producer.send(frames.transfer(1))
    assert len(container.links[0].bodies) == 1
    container.send(frames.disposition(0, channel=container.links[0].channel))
    wait(hub, 0.1)
    assert container.active() == []
    assert (core.autolinks.find("1"), core.autolinks.quiescing_at(place)) == (None, False)


@pytest.mark.parametrize("gives_back", [True, False])
def test_credit_of_a_quiescing_link_is_awaited_for_a_while(hub: Hub, gives_back: bool) -> None:
    add(hub, "in", phase=0)
    container = Container(hub)
    hub.peer().open().begin().send(frames.attach_receiver(address="q"), frames.credit(10))
    core_of(hub).autolinks.quiesce("1")
    hub.turn()
    (link,) = container.links
    given, last = next(flow.link_credit for flow in link.flows if flow.link_credit), link.flows[-1]
    assert last.drain
    if gives_back:
        container.send(frames.credit(0, link.handle, given, channel=link.channel))
    wait(hub, 0.1)
    assert bool(container.active()) != gives_back
    wait(hub, 2.0)
    assert container.active() == []


def test_a_quiescing_autolink_that_is_wanted_again_serves_as_before(hub: Hub) -> None:
    auto = add(hub)
    container = Container(hub)
    producer = hub.peer().open().begin()
    producer.send(frames.attach_sender(address="q"))
    core = core_of(hub)
    core.autolinks.quiesce("1")
    core.autolinks.resume("1")
    assert auto.status == ACTIVE
    producer.send(frames.transfer(0))
    wait(hub, 10.0)
    assert [len(link.bodies) for link in container.active()] == [1]


def test_a_quiescing_autolink_gets_no_new_links(hub: Hub) -> None:
    add(hub)
    core = core_of(hub)
    core.autolinks.quiesce("1")
    assert Container(hub).links == []


def test_telemetry_hears_of_each_state(hub: Hub) -> None:
    core = core_of(hub)
    core.context.telemetry = telemetry = Telemetry()
    add(hub)
    Container(hub).close()
    core.autolinks.remove("1")
    assert telemetry.states == [
        (None, INACTIVE),
        (INACTIVE, ATTACHING),
        (ATTACHING, ACTIVE),
        (ACTIVE, INACTIVE),
        (INACTIVE, None),
    ]


def test_the_reason_of_a_closed_connection_is_kept(hub: Hub) -> None:
    auto = add(hub)
    Container(hub).close(error=ErrorInfo("amqp:connection:forced", "broker stops"))
    assert (auto.status, auto.last_error) == (INACTIVE, "broker stops")


def test_a_refusal_whose_detach_does_not_come_is_ended_by_the_router(hub: Hub) -> None:
    auto = add(hub)
    container = Container(hub)
    container.answers = False
    container.detach(container.links[0])
    wait(hub, 0.5)
    link = container.links[1]
    container.send(frames.attach_receiver(link.attach.name, link.handle, channel=link.channel, target=None))
    wait(hub, 1.9)
    assert (link.detach, auto.status) == (None, ATTACHING)
    wait(hub, 0.1)
    assert link.detach is not None
    assert (auto.status, auto.last_error) == (FAILED, "refused by the container")


# ---- many of them
def add_many(hub: Hub) -> list[AutoLink]:
    return [add(hub, identity=str(number), address=f"q.{number}") for number in range(MANY)]


def statuses(autos: list[AutoLink]) -> dict[str, int]:
    return dict(Counter(auto.status for auto in autos))


def test_a_turn_attaches_and_tells_of_a_few_of_many(hub: Hub) -> None:
    autos = add_many(hub)
    container = Container(hub)
    assert len(container.links) < MANY
    assert core_of(hub).context.portions
    hub.finish()
    assert len(container.links) == MANY
    assert statuses(autos) == {ACTIVE: MANY}
    container.close(error=ErrorInfo("amqp:connection:forced", "broker stops"))
    assert statuses(autos)[ACTIVE] > 0
    hub.finish()
    assert statuses(autos) == {INACTIVE: MANY}
    assert {auto.last_error for auto in autos} == {"broker stops"}
    assert not any(auto.ends for auto in autos)


def test_a_container_that_comes_back_before_all_are_told_gets_links_of_the_same_names(hub: Hub) -> None:
    autos = add_many(hub)
    first = Container(hub)
    hub.finish()
    names = {link.attach.name for link in first.links}
    first.peer.kill()
    assert statuses(autos)[ACTIVE] > 0
    again = Container(hub)
    hub.finish()
    assert {link.attach.name for link in again.links} == names
    assert statuses(autos) == {ACTIVE: MANY}
    assert [list(auto.ends) for auto in autos] == [[again.conn.id]] * MANY


def test_one_that_is_removed_quiesced_or_added_before_its_turn_is_as_it_is_then(hub: Hub) -> None:
    autos = add_many(hub)
    container = Container(hub)
    core = core_of(hub)
    removed, quiesced = [auto for auto in autos if not auto.ends][-2:]
    core.autolinks.remove(removed.attrs["identity"])
    core.autolinks.quiesce(quiesced.attrs["identity"])
    added = add(hub, identity="added", address="added")
    assert added.status == ACTIVE
    hub.finish()
    assert (removed.ends, quiesced.ends) == ({}, {})
    assert len(container.links) == MANY - 2 + 1


def test_a_container_that_goes_before_all_are_attached_gets_no_more(hub: Hub) -> None:
    autos = add_many(hub)
    container = Container(hub)
    attached = len(container.links)
    container.peer.kill()
    hub.finish()
    assert len(container.links) == attached < MANY
    assert statuses(autos) == {INACTIVE: MANY}


def test_many_that_were_refused_are_tried_again_in_portions(hub: Hub) -> None:
    autos = add_many(hub)
    container = Container(hub)
    container.refusal = ErrorInfo("amqp:not-found", "not yet")
    hub.finish()
    refused = [auto for auto in autos if auto.status == FAILED]
    assert refused
    container.refusal = None
    wait(hub, 0.5)
    assert 0 < statuses(autos)[FAILED] < len(refused)
    hub.finish()
    assert statuses(autos) == {ACTIVE: MANY}
