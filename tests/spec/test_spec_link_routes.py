"""Link routes frame by frame, between a client and a container. Spec: 2.6, 2.7.5, 4.4."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import Peer, core_hub
from waymesh_amqp.performatives import Attach, Begin, Detach, Disposition, Flow, Terminus, Transfer
from waymesh_amqp.types import Described, Symbol, ULong

ENTITY = {"identity": "linkRoute/0", "prefix": "q", "direction": "both", "connection": "broker"}
DECLARED = Described(ULong(0x34), [b"txn-1", Described(ULong(0x24), [])])


class Pair:
    """A client and a container at one router that routes `q` to the container. `frame`: the longest it takes."""

    def __init__(self, chunk: int = 10000, frame: int | None = None) -> None:
        self.hub = core_hub(chunk)
        core: Any = self.hub.handler
        core.linkroutes.add(ENTITY)
        self.broker = self.hub.peer()
        self.broker.conn.role, self.broker.conn.origin = "route-container", "broker"
        self.broker.conn.settings.container_id = core.router_id
        self.broker.open(container_id="broker", max_frame_size=frame)
        self.client = self.hub.peer().open(container_id="client").begin()

    def seen(self, peer: Peer, kind: type) -> list[Any]:
        return [p for p in peer.take() if isinstance(p, kind)]

    def joined(self, client_attach: bytes, answer: bytes) -> list[Any]:
        """Both sides attached, in the container's session 0 with handle 0; what the container saw."""
        assert not self.client.send(client_attach)
        seen = self.broker.take()
        assert [type(p) for p in seen] == [Begin, Attach]
        self.broker.send(frames.begin(remote_channel=0), answer)
        assert [type(p) for p in self.client.take()][:1] == [Attach]
        return seen


@pytest.fixture(params=[1, 10000], ids=["bytewise", "whole"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(request.param)


def test_credit_given_before_the_answer_is_passed_on(pair: Pair) -> None:
    assert not pair.client.send(frames.attach_receiver(), frames.credit(5))
    pair.broker.take()
    flows = [p for p in pair.broker.send(
        frames.begin(remote_channel=0), frames.attach_sender("client.in")
    ) if isinstance(p, Flow)]  # fmt: skip
    assert [(f.handle, f.link_credit) for f in flows] == [(0, 5)]
    assert [type(p) for p in pair.client.take()] == [Attach]


def test_a_transfer_keeps_tag_format_state_and_frames(pair: Pair) -> None:
    pair.joined(frames.attach_sender("out"), frames.attach_receiver("client.out"))
    pair.broker.send(frames.credit(10))
    assert [f.link_credit for f in pair.seen(pair.client, Flow)] == [10]
    tag = b"a tag of the client's"
    pair.client.send(
        frames.transfer(0, b"one", delivery_tag=tag, message_format=77, state=DECLARED, more=True),
        frames.transfer(None, b"two"),
    )
    got = [f for f in pair.broker.frames() if isinstance(f, frames.Seen) and isinstance(f.performative, Transfer)]
    first: Any = got[0].performative
    assert (first.delivery_tag, first.message_format, first.settled) == (tag, 77, False)
    assert first.state == DECLARED
    assert b"".join(f.payload for f in got) == b"onetwo"


def test_states_of_both_sides_pass_as_they_are(pair: Pair) -> None:
    pair.joined(frames.attach_sender("out"), frames.attach_receiver("client.out"))
    pair.broker.send(frames.credit(10))
    pair.client.send(frames.transfer(0))
    pair.broker.take()
    pair.broker.send(frames.disposition(settled=False, state=DECLARED))
    (seen,) = pair.seen(pair.client, Disposition)
    assert (seen.settled, seen.state) == (False, DECLARED)
    pair.client.send(frames.disposition(role=frames.SENDER, state=DECLARED))
    (seen,) = pair.seen(pair.broker, Disposition)
    assert (seen.role, seen.settled, seen.state) == (False, True, DECLARED)


def test_outcomes_of_a_transaction_are_not_overtaken_by_its_discharge(pair: Pair) -> None:
    pair.joined(frames.attach_receiver("in"), frames.attach_sender("client.in"))
    pair.client.send(frames.credit(1))
    pair.broker.send(frames.transfer(0))
    pair.client.take()
    target = Terminus("coordinator", capabilities=[Symbol("amqp:local-transactions")])
    core: Any = pair.hub.handler
    core.linkroutes.add({**ENTITY, "identity": "linkRoute/1", "prefix": "$coordinator"})
    pair.client.send(frames.attach_sender("tx", 1, target=target))
    pair.broker.take()
    pair.broker.send(frames.attach_receiver("client.tx", 1, target=target), frames.credit(1, 1))
    pair.client.take()
    seen = pair.broker
    pair.client.send(frames.disposition(state=DECLARED), frames.transfer(0, handle=1))
    kinds = [type(p) for p in seen.take() if isinstance(p, (Disposition, Transfer))]
    assert kinds == [Disposition, Transfer]


def test_drain_waits_for_the_sender(pair: Pair) -> None:
    pair.joined(frames.attach_receiver("in"), frames.attach_sender("client.in"))
    pair.client.send(frames.credit(5))
    pair.broker.take()
    assert not pair.client.send(frames.credit(5, drain=True))
    (asked,) = pair.seen(pair.broker, Flow)
    assert (asked.link_credit, asked.drain) == (5, True)
    pair.broker.send(frames.credit(0, delivery_count=5, drain=True))
    (answer,) = pair.seen(pair.client, Flow)
    assert (answer.delivery_count, answer.link_credit) == (5, 0)


def test_a_detach_that_does_not_wait_for_the_attach(pair: Pair) -> None:
    (answer,) = pair.client.send(frames.attach_sender("out"), frames.detach())
    assert answer.target is None
    assert [type(p) for p in pair.broker.take()] == [Begin, Attach, Detach]
    pair.broker.send(frames.begin(remote_channel=0), frames.attach_receiver("client.out"), frames.detach())
    assert [type(p) for p in pair.client.take()] == [Detach]


def test_an_attach_that_steals_the_name_of_an_unanswered_one(pair: Pair) -> None:
    answers = pair.client.send(frames.attach_sender("out"), frames.attach_sender("out", 1))
    assert [type(p) for p in answers] == [Attach, Detach]
    assert answers[1].error.condition == "amqp:link:stolen"
    assert not pair.client.conn.done


def test_null_and_dynamic_termini_go_where_everything_goes(pair: Pair) -> None:
    dynamic = Terminus("target", dynamic=True)
    (answer,) = pair.client.send(frames.attach_sender("t", target=dynamic))
    assert answer.target.address.startswith("_temp.")
    core: Any = pair.hub.handler
    core.linkroutes.add({**ENTITY, "identity": "linkRoute/1", "prefix": None, "pattern": "#"})
    pair.client.send(frames.detach())
    assert not pair.client.send(frames.attach_sender("t", target=dynamic), frames.attach_sender("n", 1, address=None))
    assert [p.target.address for p in pair.seen(pair.broker, Attach)] == [None]
    (more,) = pair.broker.send(frames.begin(remote_channel=0))  # how many links it takes is known now
    assert more.target.address is None
    answers = pair.client.send(frames.attach_sender("m", 2, address="$management"))
    assert [type(p) for p in answers] == [Attach, Flow][: len(answers)]
