"""An ingress router whose deliveries wait asks, and sends by the windows that it is told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.demand import KEY, Told, got, later, record, remote, send, tell
from tests.kit.frames import Seen
from tests.kit.pump import Hub, core_hub, core_of
from waymesh_amqp.message import decode_message
from waymesh_amqp.performatives import Transfer
from waymesh_amqp.types import Symbol


@pytest.fixture
def hub() -> Hub:
    return core_hub()


@pytest.fixture
def told(hub: Hub) -> Told:
    return record(hub)


def test_a_lone_delivery_goes_without_a_question(hub: Hub, told: Told) -> None:
    peers = [remote(hub, "B"), remote(hub, "C")]
    send(hub, 2)
    assert [got(peer) for peer in peers] == [1, 1]
    assert told.take() == []


def test_waiting_deliveries_ask_once_and_go_by_the_windows(hub: Hub, told: Told) -> None:
    there, other = remote(hub, "B"), remote(hub, "C")
    send(hub, 30)
    assert [(router, body["waits"]) for router, body in told.take()] == [("B", 1), ("C", 1)]
    tell(hub, "B", 7)
    assert (got(there), got(other)) == (7, 4), "C has told nothing yet"
    tell(hub, "C", 0)
    tell(hub, "B", 9)
    assert (got(there), got(other)) == (2, 0)
    later(hub, 0.25)
    assert told.take() == []


def test_what_is_settled_during_a_round_trip_is_added(hub: Hub, told: Told) -> None:
    there, _ = remote(hub, "B"), remote(hub, "C")
    send(hub, 60)
    at = told.take()[0][1]["at"]
    core_of(hub).now += 0.1
    tell(hub, "B", 4, rate=200_000, at=at)
    assert got(there) == 4 + 20


def test_who_tells_nothing_is_not_asked_and_has_a_measured_window(hub: Hub, told: Told) -> None:
    old, _ = remote(hub, "B", demand=False), remote(hub, "C")
    send(hub, 30)
    assert [router for router, _ in told.take()] == ["C"]
    assert got(old) == 4


def test_the_question_is_repeated_and_ends(hub: Hub, told: Told) -> None:
    remote(hub, "B"), remote(hub, "C")
    send(hub, 10)
    told.take()
    later(hub, 10.5)
    assert [body["waits"] for _, body in told.take()] == [1, 1]
    tell(hub, "B", 20)
    later(hub, 0.5)
    assert told.take() == []
    later(hub, 2.5)
    assert [(router, body["waits"]) for router, body in told.take()] == [("B", 0), ("C", 0)]
    assert core_of(hub).addresses[KEY].targets["B"].window.announced < 0


def test_a_new_router_is_asked_too(hub: Hub, told: Told) -> None:
    remote(hub, "B"), remote(hub, "C")
    send(hub, 10)
    told.take()
    remote(hub, "D")
    send(hub, 10)
    later(hub, 0.5)
    assert [router for router, _ in told.take()] == ["D"]


NONSENSE: list[dict[str, Any]] = [
    {}, {"address": 7}, {"address": "M0other", "waits": 1}, {"address": KEY, "window": -1},
    {"address": KEY, "window": "x", "rate": [], "at": None},
]  # fmt: skip


@pytest.mark.parametrize("body", NONSENSE)
def test_messages_that_mean_nothing(hub: Hub, told: Told, body: dict[str, Any]) -> None:
    remote(hub, "B"), remote(hub, "C")
    send(hub, 10)
    told.take()
    core_of(hub).demand.arrived("B", body)
    core_of(hub).demand.arrived("unknown", body)
    later(hub, 0.25)
    assert told.take() == []


# ---- what a delivery says


def test_a_delivery_that_follows_a_told_window_names_its_router(hub: Hub, told: Told) -> None:
    there, _ = remote(hub, "B"), remote(hub, "C")
    send(hub, 30)
    got(there)
    tell(hub, "B", 7)
    (first, *_) = [f for f in there.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]
    annotations = decode_message(first.payload).message_annotations or {}
    assert annotations[Symbol("x-opt-qd.to")] == "_topo/0/B/q"
    assert annotations[Symbol("x-opt-qd.phase")] == 39
