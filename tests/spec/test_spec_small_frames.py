"""A peer with small frames: a too long frame is shortened or ends its link, without effect on others.

Spec: 2.7.1 max-frame-size, 2.6.3, 2.8.15.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import CHUNKS, Hub, Peer
from tests.kit.recorder import Recorder
from tests.spec.test_spec_link_routes import Pair
from waymesh_amqp.errors import FRAME_SIZE_TOO_SMALL, INTERNAL_ERROR, AmqpError
from waymesh_amqp.fitting import fitting_frame
from waymesh_amqp.performatives import (
    Attach,
    Close,
    Detach,
    Disposition,
    End,
    ErrorInfo,
    Terminus,
    Transfer,
    decode_performative,
)
from waymesh_amqp.types import Described, Raw, Symbol

SMALL = 512
LONG = "x" * 600
LONG_ERROR = ErrorInfo("amqp:not-found", LONG, {Symbol("why"): LONG})
FILTER = {Symbol("apache.org:selector-filter:string"): LONG}


class Neighbours(Pair):
    """A container with two clients: one takes small frames only, the other one is to notice nothing of that."""

    def __init__(self, chunk: int, client: int | None = SMALL, container: int | None = None) -> None:
        super().__init__(chunk, container)
        self.client = self.hub.peer().open(container_id="small", max_frame_size=client).begin()
        self.other = self.hub.peer().open(container_id="other").begin()
        self.other.send(frames.attach_receiver("in"), frames.credit(10))
        self.broker.take()
        self.broker.send(frames.begin(remote_channel=0), frames.attach_sender("other.in"))
        self.other.take()

    def routed(self, attach: bytes) -> None:
        """The client with the small frames attaches; the container sees it on its channel 1."""
        assert not self.client.send(attach)
        assert self.broker.take()
        self.broker.send(frames.begin(1, remote_channel=1))

    def all_is_well(self) -> None:
        """The other client's messages come, and the container is asked for no further ones."""
        assert not self.broker.conn.done
        assert not self.other.conn.done
        self.broker.send(frames.transfer(0))
        assert [type(p) for p in self.other.take()] == [Transfer]


@pytest.fixture(params=[CHUNKS[0], CHUNKS[-1]], ids=["bytewise", "whole"])
def chunk(request: pytest.FixtureRequest) -> int:
    size: int = request.param
    return size


def sizes_and_performatives(peer: Peer) -> list[Any]:
    """What a peer got; all of it is small."""
    seen: list[Any] = peer.frames()
    assert all(f.size <= SMALL for f in seen)
    return [f.performative for f in seen]


def test_a_long_refusal_of_the_container_reaches_a_small_client_shortened(chunk: int) -> None:
    scene = Neighbours(chunk)
    scene.routed(frames.attach_receiver("in"))
    scene.broker.send(
        frames.attach_sender("small.in", channel=1, source=None), frames.detach(channel=1, error=LONG_ERROR)
    )
    attach, detach = sizes_and_performatives(scene.client)
    assert (type(attach), attach.source) == (Attach, None)
    assert detach.error.condition == "amqp:not-found"
    assert LONG.startswith(detach.error.description)
    assert len(detach.error.description) > 300
    assert detach.error.info is None
    scene.all_is_well()


@pytest.mark.parametrize(
    ("say", "kind"),
    [
        (lambda: frames.detach(channel=1, error=LONG_ERROR), Detach),
        (lambda: frames.end(1, error=LONG_ERROR), Detach),
    ],
    ids=["detach", "end"],
)
def test_a_long_error_of_the_container_reaches_a_small_client_shortened(
    chunk: int, say: Callable[[], bytes], kind: type
) -> None:
    scene = Neighbours(chunk)
    scene.routed(frames.attach_receiver("in"))
    scene.broker.send(frames.attach_sender("small.in", channel=1))
    scene.client.take()
    scene.broker.send(say())
    (seen,) = sizes_and_performatives(scene.client)
    assert type(seen) is kind
    assert not scene.client.conn.done
    scene.all_is_well()


@pytest.mark.parametrize(
    "ours",
    [{"source": Terminus("source", address="q", filter=FILTER)}, {"properties": {Symbol("product"): LONG}}],
    ids=["filter", "properties"],
)
def test_an_answer_of_the_container_that_is_too_long_refuses_the_small_clients_link(
    chunk: int, ours: dict[str, Any]
) -> None:
    scene = Neighbours(chunk)
    scene.routed(frames.attach_receiver("in"))
    (gone,) = scene.broker.send(frames.attach_sender("small.in", channel=1, **ours))
    attach, detach = sizes_and_performatives(scene.client)
    assert (type(attach), attach.source) == (Attach, None)
    assert detach.error.condition == FRAME_SIZE_TOO_SMALL
    assert (type(gone), gone.error.condition) == (Detach, FRAME_SIZE_TOO_SMALL)
    assert not scene.client.conn.done
    scene.all_is_well()


@pytest.mark.parametrize(
    "ours",
    [
        {"source": Terminus("source", address="q", filter=FILTER)},
        {"properties": Raw(b"\xd1\x00\x00\x02\x69\x00\x00\x00\x02\xa3\x07product\xb1\x00\x00\x02\x57" + b"x" * 599)},
    ],
    ids=["filter", "properties"],
)
def test_an_attach_that_is_too_long_for_a_small_container_is_refused(chunk: int, ours: dict[str, Any]) -> None:
    scene = Neighbours(chunk, None, SMALL)
    (attach, detach) = scene.client.send(frames.attach_receiver("in", **ours))
    assert attach.source is None
    assert detach.error.condition == FRAME_SIZE_TOO_SMALL
    scene.all_is_well()
    scene.client.send(frames.detach())
    scene.broker.take()
    scene.client.send(frames.attach_receiver("in"))
    (again,) = [p for p in scene.broker.take() if isinstance(p, Attach)]
    assert again.name == "small.in", "the name of the refused link is free"


@pytest.mark.parametrize("say", [frames.detach, frames.end], ids=["detach", "end"])
def test_a_long_error_of_a_client_reaches_a_small_container_shortened(chunk: int, say: Callable[..., bytes]) -> None:
    scene = Neighbours(chunk, None, SMALL)
    scene.routed(frames.attach_receiver("in"))
    scene.broker.send(frames.attach_sender("small.in", channel=1))
    scene.client.send(say(error=LONG_ERROR))
    (seen,) = sizes_and_performatives(scene.broker)
    assert type(seen) is Detach
    scene.all_is_well()


def test_a_long_answer_of_the_container_to_a_small_clients_detach(chunk: int) -> None:
    scene = Neighbours(chunk)
    scene.routed(frames.attach_receiver("in"))
    scene.broker.send(frames.attach_sender("small.in", channel=1))
    scene.client.take()
    scene.client.send(frames.detach())
    scene.broker.send(frames.detach(channel=1, error=LONG_ERROR))
    (answer,) = sizes_and_performatives(scene.client)
    assert answer.error.condition == "amqp:not-found"
    scene.all_is_well()


def test_a_name_that_leaves_no_room_for_a_refusal_ends_the_session_that_uses_it(core: Hub) -> None:
    small = core.peer().open(max_frame_size=SMALL).begin()
    (end,) = small.send(frames.attach_receiver(LONG))
    assert (type(end), end.error.condition) == (End, FRAME_SIZE_TOO_SMALL)
    assert not small.conn.done


@pytest.mark.parametrize(
    "descriptor", [b"\x53\x25", b"\x80" + (0x25).to_bytes(8, "big"), b"\xa3\x12amqp:rejected:list"]
)
def test_an_outcome_that_is_too_long_keeps_its_kind(core: Hub, descriptor: bytes) -> None:
    consumer = core.peer().open().begin()
    consumer.send(frames.attach_receiver(), frames.credit(10))
    producer = core.peer().open(max_frame_size=SMALL).begin()
    producer.send(frames.attach_sender())
    producer.send(frames.transfer(0))
    error = ErrorInfo("amqp:not-found", LONG).encode()
    body = b"\xd0" + (len(error) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + error
    consumer.send(frames.disposition(0, state=Raw(b"\x00" + descriptor + body)))
    (outcome,) = [p for p in producer.take() if isinstance(p, Disposition)]
    assert isinstance(outcome.state, Described)
    assert outcome.state.descriptor in (0x25, "amqp:rejected:list")
    assert outcome.state.value == []


def test_a_close_with_a_long_reason_fits(core: Hub) -> None:
    small = core.peer().open(max_frame_size=SMALL)
    small.conn.close("amqp:connection:forced", "ä" * 600)
    (close,) = sizes_and_performatives(small)
    assert type(close) is Close
    assert close.error is not None
    assert set(close.error.description or "") == {"ä"}


@pytest.mark.parametrize("limit", [512, 513, 600, 700, 5000])
@pytest.mark.parametrize("info", [None, {Symbol("k"): LONG}])
@pytest.mark.parametrize("description", [None, "", "short", "ä€" * 300])
@pytest.mark.parametrize("condition", ["amqp:not-found", "c" * 500, "c" * 100000])
def test_an_error_always_fits(limit: int, info: Any, description: str | None, condition: str) -> None:
    for made in (
        Detach(3, closed=True, error=ErrorInfo(condition, description, info)),
        End(error=ErrorInfo(condition, description, info)),
        Close(error=ErrorInfo(condition, description, info)),
    ):
        frame = fitting_frame(7, made, limit)
        assert frame is not None
        assert len(frame) <= limit
        seen: Any = decode_performative(frame, 8, len(frame))[0]
        error = seen.error
        assert type(seen) is type(made)
        assert error.condition == (condition if len(condition) < 450 else error.condition)
        if len(condition) < 450 and (description or "").startswith("ä"):
            assert len(error.description.encode()) >= min(limit - 100, 1500)


class Faulty(Recorder):
    """A handler that cannot write to another peer when somebody attaches."""

    victim: Any = None

    def on_attach(self, link: Any, performative: Any) -> None:
        if performative.name == "bad":
            raise AmqpError(INTERNAL_ERROR, "that could not be written", self.victim)
        super().on_attach(link, performative)


def test_an_error_in_a_session_of_another_connection_ends_that_session(chunk: int) -> None:
    handler = Faulty()
    hub = Hub(handler, chunk)
    victim, reader = hub.peer().open().begin(), hub.peer().open().begin()
    handler.victim = victim.session()
    reader.send(frames.attach_receiver("bad", 0), frames.attach_receiver("good", 1))
    (end,) = victim.take()
    assert (type(end), end.error.condition) == (End, INTERNAL_ERROR)
    assert not victim.conn.done
    assert not reader.conn.done
    assert "good" in [link.name for link in reader.session().links if link is not None]
    assert reader.send(frames.begin(3))


def test_an_error_in_a_session_of_the_connection_that_is_read_fails_that(chunk: int) -> None:
    handler = Faulty()
    hub = Hub(handler, chunk)
    reader = hub.peer().open().begin()
    handler.victim = reader.session()
    (close,) = reader.send(frames.attach_receiver("bad"))
    assert (type(close), close.error.condition) == (Close, INTERNAL_ERROR)


def test_an_error_in_a_session_of_another_connection_is_work_like_any_other() -> None:
    handler = Faulty()
    hub = Hub(handler)
    victim, reader = hub.peer().open().begin(), hub.peer().open().begin()
    handler.victim = victim.session()
    bad, good = frames.attach_receiver("bad", 0), frames.attach_receiver("good", 1)
    reader.conn.budget = 1
    assert reader.conn.receive(memoryview(bad + good), len(bad + good)) == len(bad)
    assert not handler.named("attach")
