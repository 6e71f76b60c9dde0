"""Messages about demand come from reachable routers of the mesh, and not from former instances of them."""

from __future__ import annotations

from typing import Any

import pytest

from waymesh_router.routing.demand import DemandMessages
from waymesh_router.routing.nodes import Node
from waymesh_router.routing.settings import RoutingSettings

BODY = {"id": "B", "pv": 1, "area": "0", "instance": 7}


def messages(demand: bool = True) -> DemandMessages:
    known, gone = Node("B", 0.0), Node("C", 0.0)
    known.up, known.instance, known.demand = True, 7, True
    gone.instance = 7
    return DemandMessages(RoutingSettings("A", instance=5, demand=demand), {"B": known, "C": gone})


def test_a_reachable_router_is_heard() -> None:
    assert messages().sender(BODY) == "B"


OTHERS: list[dict[str, Any]] = [
    {"id": "C"}, {"id": "A"}, {"id": "unknown"}, {"id": 7}, {"instance": 6}, {"instance": None}, {"pv": 2},
]  # fmt: skip


@pytest.mark.parametrize("other", OTHERS)
def test_others_are_not(other: dict[str, Any]) -> None:
    assert messages().sender(BODY | other) == ""


def test_a_message_says_who_sends_it() -> None:
    sent = messages().to("B", {"waits": 1})
    assert (sent.router_id, sent.opcode) == ("B", "DEMAND")
    assert sent.body["id"] == "A"
    assert (sent.body["instance"], sent.body["waits"]) == (5, 1)


def test_a_router_that_does_not_take_part_hears_and_asks_nobody() -> None:
    assert messages(demand=False).sender(BODY) == ""
    assert not messages(demand=False).told_by("B")
    assert messages().told_by("B")
    assert not messages().told_by("C")
