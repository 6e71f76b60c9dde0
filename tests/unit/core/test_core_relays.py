"""Messages of anonymous senders to link-routed addresses: the router attaches a link for each address."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import Container
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.outcomes import ACCEPTED, RELEASED
from waymesh_amqp.performatives import Attach, Disposition, ErrorInfo, Transfer, encode_frame
from waymesh_amqp.settings import ConnectionSettings
from waymesh_router.core.link_routing.relays import IDLE_S, REFUSALS_TOLD
from waymesh_router.events.event import Event
from waymesh_router.events.line_limit import WINDOW_S


@pytest.fixture
def hub() -> Hub:
    hub = core_hub()
    route(hub)
    return hub


def route(hub: Hub, **attrs: Any) -> None:
    core_of(hub).linkroutes.add({
        "identity": "1", "direction": "in", "prefix": "b2", "connection": "broker", **attrs,
    })  # fmt: skip


def anonymous(hub: Hub, max_links: int = 100) -> Peer:
    peer = hub.peer(ConnectionSettings("engine", max_links=max_links)).open().begin()
    peer.send(frames.attach_sender(address=None))
    return peer


def to(address: str) -> bytes:
    return encode_message(Message(to=address, body="x"))


def states(peer: Peer) -> list[Any]:
    return [d.state for d in peer.take() if isinstance(d, Disposition)]


def wait(hub: Hub, seconds: float) -> None:
    core_of(hub).now += seconds
    core_of(hub).relays.tick()
    hub.turn()


def test_messages_of_one_address_share_a_link_and_outcomes_return(hub: Hub) -> None:
    container = Container(hub)
    one, other = anonymous(hub), anonymous(hub)
    one.send(frames.transfer(0, to("b2.q")), frames.transfer(1, to("amqp:/b2.q")))
    other.send(frames.transfer(0, to("b2.q")), frames.transfer(1, to("b2.r")))
    assert [(link.address, len(link.bodies)) for link in container.links] == [("b2.q", 3), ("b2.r", 1)]
    link = container.links[0]
    transfer = link.transfers[0].performative
    assert isinstance(transfer, Transfer)
    assert transfer.delivery_id is not None
    container.send(frames.disposition(transfer.delivery_id, channel=link.channel))
    assert (states(one), states(other)) == ([ACCEPTED], [])


def test_deliveries_wait_for_the_answer_and_for_credit(hub: Hub) -> None:
    container = Container(hub, credit=1)
    sender = anonymous(hub)
    sender.send(frames.transfer(0, to("b2.q")), frames.transfer(1, to("b2.q")))
    (link,) = container.links
    assert len(link.bodies) == 1
    container.send(frames.credit(1, link.handle, 1, channel=link.channel))
    assert len(link.bodies) == 2


def test_no_route_leads_elsewhere(hub: Hub) -> None:
    container = Container(hub)
    sender = anonymous(hub)
    sender.send(frames.transfer(0, to("b3.q")))
    assert (container.links, core_of(hub).relays._relays) == ([], {})


def test_prefixes_of_the_entity_apply(hub: Hub) -> None:
    core_of(hub).linkroutes.remove("1")
    route(hub, delExternalPrefix="b2.", addExternalPrefix="x/")
    container = Container(hub)
    anonymous(hub).send(frames.transfer(0, to("b2.q")))
    assert [link.address for link in container.links] == ["x/q"]


def test_a_refusal_reaches_the_sender_with_its_reason(hub: Hub) -> None:
    container = Container(hub)
    container.refusal = ErrorInfo("amqp:not-found", "no queue")
    sender = anonymous(hub)
    sent = sender.send(frames.transfer(0, to("b2.q")))
    (state,) = frames.told(sent)
    assert state.descriptor == 0x25
    assert "no queue" in str(state.value)


def test_deliveries_are_released_when_the_connection_is_lost(hub: Hub) -> None:
    container = Container(hub, credit=0)
    sender = anonymous(hub)
    sender.send(frames.transfer(0, to("b2.q")))
    container.peer.kill()
    assert states(sender) == [RELEASED]
    assert "Ab2.q" not in core_of(hub).addresses


def test_a_link_that_is_not_used_goes_after_a_while(hub: Hub) -> None:
    container = Container(hub)
    sender = anonymous(hub)
    sender.send(frames.transfer(0, to("b2.q")))
    wait(hub, 1.0)
    wait(hub, IDLE_S)
    assert container.active(), "a delivery has no outcome yet"
    container.send(frames.disposition(0, channel=container.links[0].channel))
    sender.send(frames.transfer(1, to("b2.q"), settled=True))
    wait(hub, 1.0)
    wait(hub, IDLE_S - 1.0)
    assert container.active(), "it carried a message since"
    wait(hub, 1.0)
    assert container.active() == []
    assert "Ab2.q" not in core_of(hub).addresses


@pytest.mark.parametrize("answers", [False, True], ids=["none", "without a target"])
def test_deliveries_for_a_link_that_is_not_accepted_are_released_after_a_while(hub: Hub, answers: bool) -> None:
    """A detach should follow an answer without a target, but some containers send none."""
    container = Container(hub)
    container.answers = False
    sender = anonymous(hub)
    sender.send(frames.transfer(0, to("b2.q")))
    (link,) = container.links
    if answers:
        refusal = Attach(link.attach.name, link.handle, role=True, source=link.attach.source)
        container.send(encode_frame(link.channel, refusal))
    wait(hub, IDLE_S - 1.0)
    assert (states(sender), container.active()) == ([], [link])
    wait(hub, 1.0)
    assert (states(sender), container.active()) == ([RELEASED], [])
    container.answers = True
    sender.send(frames.transfer(1, to("b2.q")))
    assert [len(link.bodies) for link in container.links] == [0, 1]


def test_the_next_message_after_that_attaches_again(hub: Hub) -> None:
    container = Container(hub)
    sender = anonymous(hub)
    sender.send(frames.transfer(0, to("b2.q"), settled=True))
    wait(hub, 1.0)
    wait(hub, IDLE_S)
    sender.send(frames.transfer(1, to("b2.q"), settled=True))
    assert [len(link.bodies) for link in container.links] == [1, 1]


def test_refusals_of_a_container_fill_no_log(hub: Hub) -> None:
    Container(hub, container_id="narrow", max_frame_size=512)
    lines: list[str] = []

    def log(module: str, level: str, text: str, event: Event | None = None, /) -> None:
        lines.append(text)

    core_of(hub).context.log = log
    sender = anonymous(hub)
    sender.send(*(frames.transfer(k, to("b2." + "q" * 600), settled=True) for k in range(REFUSALS_TOLD + 2)))
    assert len(lines) == REFUSALS_TOLD
    assert all(line.startswith("link for anonymous senders to b2.q") for line in lines)
    wait(hub, WINDOW_S)
    assert lines[REFUSALS_TOLD:] == ["2 more links for anonymous senders were refused by narrow within 60 s"]


def test_links_count_toward_those_of_the_connection_that_opens_them(hub: Hub) -> None:
    container = Container(hub)
    one, other = anonymous(hub, max_links=3), anonymous(hub)
    assert frames.told(one.send(*(frames.transfer(k, to(f"b2.{k}")) for k in range(2)))) == []
    (state,) = frames.told(one.send(frames.transfer(2, to("b2.2"))))
    assert (state.descriptor, "amqp:resource-limit-exceeded" in str(state.value)) == (0x25, True)
    other.send(frames.transfer(0, to("b2.2"), settled=True))
    one.send(frames.transfer(3, to("b2.2"), settled=True))
    assert [(link.address, len(link.bodies)) for link in container.links] == [("b2.0", 1), ("b2.1", 1), ("b2.2", 2)]


def test_an_unknown_address_is_none_of_them(hub: Hub) -> None:
    Container(hub)
    one = anonymous(hub, max_links=1)
    assert frames.told(one.send(frames.transfer(0, to("b3.q")))) == [RELEASED]


def test_there_is_room_again_when_a_link_has_ended(hub: Hub) -> None:
    container = Container(hub)
    one = anonymous(hub, max_links=2)
    one.send(frames.transfer(0, to("b2.0"), settled=True), frames.transfer(1, to("b2.1"), settled=True))
    wait(hub, 1.0)
    wait(hub, IDLE_S)
    one.send(frames.transfer(2, to("b2.1"), settled=True))
    assert [link.address for link in container.links] == ["b2.0", "b2.1"]
    one.send(frames.close())
    wait(hub, 1.0)
    wait(hub, IDLE_S)
    assert core_of(hub).relays._opened == {}
