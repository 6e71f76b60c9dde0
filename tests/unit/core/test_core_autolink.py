"""One autolink: the address it serves, its attach, its status, and when a failed link is tried again."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from waymesh_amqp.errors import NOT_ALLOWED, NOT_FOUND, UNAUTHORIZED_ACCESS
from waymesh_router.core.containers import autolink
from waymesh_router.core.containers.autolink import (
    ACTIVE,
    ATTACHING,
    FAILED,
    INACTIVE,
    QUIESCING,
    AutoLink,
    AutoLinkEnd,
)

pytestmark = pytest.mark.engine_independent


def auto(changes: list[tuple[str, str]] | None = None, **attrs: Any) -> AutoLink:
    def changed(_: AutoLink, before: str, after: str) -> None:
        if changes is not None:
            changes.append((before, after))

    return AutoLink({"direction": "in", "address": "q", "identity": "7", "connection": "broker", **attrs}, changed)


def end_of(made: AutoLink, number: int = 1) -> AutoLinkEnd:
    conn: Any = SimpleNamespace(id=number)
    return made.new_end(conn)


@pytest.mark.parametrize(
    ("attrs", "key"),
    [
        ({"direction": "in"}, "M1q"),
        ({"direction": "out"}, "M0q"),
        ({"direction": "in", "phase": 0}, "M0q"),
        ({"direction": "out", "phase": 3}, "M3q"),
        ({"direction": "in", "fallback": True}, "M0q"),
        ({"direction": "in", "fallback": True, "phase": 2}, "M2q"),
        ({"direction": "out", "fallback": True}, "MFq"),
        ({"direction": "out", "address": "amqp:/a/b"}, "M0a/b"),
    ],
)
def test_the_address_in_the_mesh(attrs: dict[str, Any], key: str) -> None:
    assert auto(**attrs).key == key


@pytest.mark.parametrize(
    ("direction", "external", "address"), [("in", None, "q"), ("in", "other", "other"), ("out", "other", "other")]
)
def test_the_attach_names_the_node_at_the_container(direction: str, external: str | None, address: str) -> None:
    terms = auto(direction=direction, externalAddress=external).terms("R", "u", 0)
    assert terms.role == (direction == "in")
    assert terms.source is not None
    assert terms.target is not None
    assert (terms.source.address, terms.target.address) == (address, address)


def test_names_differ_by_router_entity_and_connection() -> None:
    names = {auto().terms("R", "u", number).name for number in range(3)}
    names |= {auto().terms("R", "v", 0).name, auto(identity="8").terms("R", "u", 0).name}
    assert len(names) == 5


def test_connections_take_the_lowest_free_number() -> None:
    made = auto()
    assert [end_of(made, number).number for number in (10, 11, 12)] == [0, 1, 2]
    del made.ends[11]
    assert end_of(made, 13).number == 1


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        ([], INACTIVE),
        ([ATTACHING], ATTACHING),
        ([FAILED], FAILED),
        ([FAILED, ATTACHING], ATTACHING),
        ([FAILED, ATTACHING, ACTIVE], ACTIVE),
    ],
)
def test_the_status_is_that_of_the_best_link(statuses: list[str], status: str) -> None:
    made = auto()
    for number, one in enumerate(statuses):
        end_of(made, number).status = one
    made.refresh()
    assert made.status == status


def test_each_change_of_status_is_told_once() -> None:
    changes: list[tuple[str, str]] = []
    made = auto(changes)
    end = end_of(made)
    made.refresh()
    made.refresh()
    end.active(1.0)
    made.quiescing_since = 2.0
    made.refresh()
    assert changes == [(INACTIVE, ATTACHING), (ATTACHING, ACTIVE), (ACTIVE, QUIESCING)]


def delays(condition: str, times: int) -> list[float]:
    end = end_of(auto())
    found, now = [], 100.0
    for _ in range(times):
        end.failed(condition, "text", now)
        found.append(end.retry_at - now)
        now = end.retry_at
    return found


def test_a_failed_link_is_tried_after_longer_and_longer_delays() -> None:
    assert delays(NOT_FOUND, 8) == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, autolink.LAST_RETRY_S, autolink.LAST_RETRY_S]


@pytest.mark.parametrize("condition", [NOT_ALLOWED, UNAUTHORIZED_ACCESS])
def test_a_forbidden_link_is_tried_much_later(condition: str) -> None:
    assert delays(condition, 7) == [10.0, 20.0, 40.0, 80.0, 160.0, autolink.LAST_FORBIDDEN_S, 300.0]


@pytest.mark.parametrize(("active_s", "delay"), [(autolink.STABLE_S, 0.5), (autolink.STABLE_S - 1, 2.0)])
def test_only_a_stable_link_begins_with_the_shortest_delay_again(active_s: float, delay: float) -> None:
    end = end_of(auto())
    end.failed("", "text", 0.0)
    end.failed("", "text", 1.0)
    end.active(10.0)
    end.failed("", "text", 10.0 + active_s)
    assert end.retry_at - (10.0 + active_s) == delay


def test_the_last_error_lasts_until_the_link_is_active() -> None:
    made = auto()
    end = end_of(made)
    end.failed("", "no such queue", 0.0)
    assert (made.status, made.last_error, end.last_error) == (FAILED, "no such queue", "no such queue")
    end.active(1.0)
    assert (made.status, made.last_error, end.last_error) == (ACTIVE, None, None)


def test_quiescing_has_a_beginning() -> None:
    made = auto()
    assert not made.quiescing
    found = []
    for since in (0.0, math.inf):
        made.quiescing_since = since
        found.append(made.quiescing)
    assert found == [True, False]
