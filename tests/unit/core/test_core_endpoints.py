"""Links of clients: how they join an address, and how they leave it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.long_turns import Scene
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.outcomes import RELEASED
from waymesh_amqp.performatives import Attach, Detach, Flow, Terminus, Transfer
from waymesh_amqp.types import Described, Symbol
from waymesh_router.core.attaching import DRAINING
from waymesh_router.core.control_plane_hooks import ControlPlaneHooks
from waymesh_router.core.memory_levels import HIGH, NORMAL
from waymesh_router.core.portions import COST_A_TURN


class ControlPlane(ControlPlaneHooks):
    def __init__(self) -> None:
        self.told: list[str] = []

    def local_added(self, key: str, treatment: int) -> None:
        self.told.append("+" + key)

    def local_removed(self, key: str) -> None:
        self.told.append("-" + key)


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def configure(hub: Hub, prefix: str, **attrs: Any) -> None:
    phases = {"waypoint": False, "ingressPhase": None, "egressPhase": None}
    entity = {"pattern": None, "prefix": prefix, "distribution": "balanced", **phases, **attrs}
    core_of(hub).address_table.add_pattern(entity)


def client(hub: Hub) -> Peer:
    return hub.peer().open().begin()


def condition(answers: list[Any]) -> str:
    """Why an attach was refused; "" where it was not."""
    errors = [d.error for d in answers if isinstance(d, Detach) and d.error is not None]
    return errors[0].condition if errors else ""


def credit(answers: list[Any]) -> int:
    """The credit that a sender was given last; -1 for none."""
    return next((f.link_credit or 0 for f in reversed(answers) if isinstance(f, Flow) and f.handle is not None), -1)


@pytest.mark.parametrize(
    ("text", "key"),
    [("q", "M0q"), ("amqp://host/q", "M0q"), ("_local/x", "Lx"), ("_topo/0/R/x", "Lx"), ("_topo/all/all/x", "Tx")],
)
@pytest.mark.parametrize("receiver", [True, False])
def test_links_join_the_address_that_they_name(hub: Hub, receiver: bool, text: str, key: str) -> None:
    peer = client(hub)
    peer.send((frames.attach_receiver if receiver else frames.attach_sender)(address=text))
    address = core_of(hub).addresses[key]
    assert (len(address.consumers), len(address.producers)) == ((1, 0) if receiver else (0, 1))
    peer.send(frames.detach())
    assert key not in core_of(hub).addresses


@pytest.mark.parametrize(("receiver", "key"), [(True, "M1w"), (False, "M0w")])
def test_the_two_phases_of_a_waypoint(hub: Hub, receiver: bool, key: str) -> None:
    configure(hub, "w", waypoint=True)
    client(hub).send((frames.attach_receiver if receiver else frames.attach_sender)(address="w"))
    assert list(core_of(hub).addresses) == [key]


@pytest.mark.parametrize(("text", "why"), [("closed", "amqp:not-found"), ("_topo/0/B/x", "amqp:not-allowed")])
def test_refused_consumers_leave_nothing(hub: Hub, text: str, why: str) -> None:
    configure(hub, "closed", distribution="unavailable")
    assert condition(client(hub).send(frames.attach_receiver(address=text))) == why
    assert core_of(hub).addresses == {}


def test_a_dynamic_source_gets_an_address_of_its_own(hub: Hub) -> None:
    source = Terminus("source", dynamic=True)
    peer = client(hub)
    answers = peer.send(frames.attach_receiver("a", 0, source=source), frames.attach_receiver("b", 1, source=source))
    found = {a.source.address for a in answers if isinstance(a, Attach) and a.source is not None}
    assert len(found) == 2
    for address in found:
        assert str(address).startswith("amqp:/_topo/0/R/temp.")
        assert not condition(client(hub).send(frames.attach_sender(address=address)))
    assert all(address.consumers and address.producers for address in core_of(hub).addresses.values())


SELECTOR = {Symbol("s"): Described(Symbol("apache.org:selector-filter:string"), "color = 'red'")}


@pytest.mark.parametrize(("mode", "answered"), [(None, None), ("move", "move"), ("copy", None)])
def test_a_filter_and_a_mode_that_are_not_applied_are_not_in_the_answer(
    hub: Hub, mode: str | None, answered: str | None
) -> None:
    """What the answer has is in effect. Spec: 3.5.3, 3.5.8"""
    source = Terminus(
        "source", address="q", filter=SELECTOR, distribution_mode=mode, capabilities=[Symbol("queue")], durable=1
    )
    (answer,) = client(hub).send(frames.attach_receiver(source=source))
    assert isinstance(answer, Attach)
    assert answer.source == Terminus(
        "source", address="q", distribution_mode=answered, capabilities=[Symbol("queue")], durable=1
    )


def test_a_dynamic_target_gets_an_address_that_others_can_read(hub: Hub) -> None:
    answers = client(hub).send(frames.attach_sender(target=Terminus("target", dynamic=True)))
    (address,) = [a.target.address for a in answers if isinstance(a, Attach) and a.target is not None]
    client(hub).send(frames.attach_receiver(address=address))
    (known,) = core_of(hub).addresses.values()
    assert (len(known.producers), len(known.consumers)) == (1, 1)


@pytest.mark.parametrize("text", [None, "", "/", "amqp://host/"])
def test_an_anonymous_sender_has_credit_at_once(hub: Hub, text: str | None) -> None:
    peer = client(hub)
    assert credit(peer.send(frames.attach_sender(address=text))) > 0
    (link,) = [link for link in peer.session().links if link is not None]
    assert (link.anonymous, link.address, core_of(hub).addresses) == (True, None, {})


def test_the_mesh_hears_of_the_first_and_the_last_consumer(hub: Hub) -> None:
    core_of(hub).context.control_plane = plane = ControlPlane()
    one, other = client(hub), client(hub)
    for peer in (one, other):
        peer.send(frames.attach_receiver(address="q"), frames.attach_receiver("l", 1, address="_local/x"))
    assert plane.told == ["+M0q"]
    one.kill()
    assert plane.told == ["+M0q"]
    other.send(frames.detach())
    assert plane.told == ["+M0q", "-M0q"]


def test_producers_lose_their_credit_with_the_last_consumer(hub: Hub) -> None:
    sender = client(hub)
    consumers = [client(hub), client(hub)]
    for peer in consumers:
        peer.send(frames.attach_receiver())
    assert credit(sender.send(frames.attach_sender())) > 0
    consumers[0].kill()
    assert credit(sender.take()) == -1
    consumers[1].kill()
    (flow,) = [f for f in sender.take() if isinstance(f, Flow)]
    assert flow.drain or flow.link_credit == 0


def test_a_producer_gets_the_credit_of_its_connection(hub: Hub) -> None:
    client(hub).send(frames.attach_receiver())
    peer = client(hub)
    peer.conn.link_capacity = 7
    assert credit(peer.send(frames.attach_sender())) == 7


# ---- draining and retiring
@pytest.mark.parametrize("new", [True, False])
def test_while_the_router_drains_links_are_refused_and_new_connections_turned_away(hub: Hub, new: bool) -> None:
    core = core_of(hub)
    peer = client(hub)
    core.context.drain_from = peer.conn.id + (0 if new else 1)
    answers = peer.send(frames.attach_sender())
    refused = [d.error.description for d in answers if isinstance(d, Detach) and d.error is not None]
    assert refused == ([] if new else [DRAINING])
    assert core.endpoint_links.turned_away == ([peer.conn] if new else [])


def test_management_goes_on_while_the_router_drains(hub: Hub) -> None:
    core = core_of(hub)
    core.address_table.subscribe("M0$management", lambda *_: None)
    peer = client(hub)
    core.context.drain_from = peer.conn.id + 1
    assert credit(peer.send(frames.attach_sender(address="$management"))) > 0


def test_a_retiring_producer_gets_back_what_waits_and_no_credit(hub: Hub) -> None:
    client(hub).send(frames.attach_receiver())
    sender = client(hub)
    sender.send(frames.attach_sender(), frames.transfer(0), frames.transfer(1))
    (link,) = [link for link in sender.session().links if link is not None]
    core_of(hub).endpoint_links.retire(link)
    answers = sender.take()
    assert {state.descriptor for state in frames.told(answers)} == {RELEASED.descriptor}
    assert any(isinstance(f, Flow) and f.drain for f in answers)
    assert not any(isinstance(d, Detach) for d in answers)
    assert link in core_of(hub).addresses["M0q"].producers


def test_a_retiring_consumer_gets_nothing_more(hub: Hub) -> None:
    retiring, other = client(hub), client(hub)
    for peer in (retiring, other):
        peer.send(frames.attach_receiver(), frames.credit(10))
    (link,) = [link for link in retiring.session().links if link is not None]
    core_of(hub).endpoint_links.retire(link)
    sender = client(hub)
    sender.send(frames.attach_sender(), *[frames.transfer(number, settled=True) for number in range(3)])
    assert [len([t for t in peer.take() if isinstance(t, Transfer)]) for peer in (retiring, other)] == [0, 3]


def test_links_get_their_credit_in_portions_when_memory_is_no_longer_short() -> None:
    scene = Scene()
    core, links = scene.core, scene.core.endpoint_links
    links.set_memory(HIGH)
    peer = scene.senders(COST_A_TURN, "q.{}".format)
    links.set_memory(NORMAL)
    left = len(links.withheld)
    assert 0 < left < COST_A_TURN
    links.set_memory(HIGH)
    while core.context.portions:
        core.context.portions.run()
    assert len(links.withheld) == left, "memory is short again"
    links.set_memory(NORMAL)
    while core.context.portions:
        core.context.portions.run()
    assert not links.withheld
    assert all(link.capacity > 0 for link in peer.conn.sessions[0].links if link is not None)
