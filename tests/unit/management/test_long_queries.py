"""Queries of many rows: answered in slices, while other requests are served and entities come and go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.management.fake_router import NODE, NOW, Bench, FakeLink
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_router.core.link_kinds import ENDPOINT, WRITE_MANAGEMENT
from waymesh_router.management.long_queries import MOST
from waymesh_router.management.look_ups import KnownNames, LookUps
from waymesh_router.management.query import ROWS_A_SLICE
from waymesh_router.management.rights import Rights
from waymesh_router.management.service import ManagementService

pytestmark = pytest.mark.engine_independent

LINKS = 10 * ROWS_A_SLICE + 3


class Client:
    """What the service looks at of a connection."""

    def __init__(self, role: str = "normal") -> None:
        self.id = 1
        self.role = role
        self.budget = 0
        self.management = WRITE_MANAGEMENT
        self.management_files = False
        self.multi_tenant = False
        self.access = None
        self.over = False
        self.user, self.remote, self.origin = "ann", None, "people"
        self.peer = SimpleNamespace(host="10.0.0.1:5")
        self.settings = SimpleNamespace(client=False)


class Desk:
    """A management service and the replies that it sent, in their order."""

    def __init__(self, bench: Bench) -> None:
        self.replies: list[Message] = []
        self.log: list[tuple[Any, ...]] = []
        self.service = ManagementService(
            bench.agent,
            lambda: NOW,
            self._send,
            lambda *line: self.log.append(line),
            Rights("A", lambda *_: None, lambda *line: self.log.append(line)),
            LookUps(KnownNames(), lambda _names, _done: None),
        )

    def _send(self, address: str, message: bytes) -> bool:
        assert address == "temp.1"
        self.replies.append(decode_message(message))
        return True

    def ask(self, number: str, operation: str, by: Client | None = None, **body: Any) -> None:
        properties = {"operation": operation, **NODE}
        request = Message(reply_to="temp.1", correlation_id=number, application_properties=properties, body=body)
        link: Any = None if by is None else SimpleNamespace(connection=by, kind=ENDPOINT)
        self.service.on_request(encode_message(request), link)

    def query(self, number: str, by: Client | None = None, **body: Any) -> None:
        self.ask(number, "QUERY", by, entityType="router.link", attributeNames=["identity"], **body)

    def statuses(self) -> dict[Any, int]:
        """The status of each reply by its correlation-id, in the order of the replies."""
        return {reply.correlation_id: (reply.application_properties or {})["statusCode"] for reply in self.replies}

    def finish(self) -> int:
        """Work until nothing is left; the number of slices."""
        slices = 0
        while self.service.busy:
            self.service.step()
            slices += 1
        return slices

    def identities(self, number: int = 0) -> list[str]:
        reply = self.replies[number]
        assert reply.application_properties is not None
        assert reply.application_properties["statusCode"] == 200
        return [row[0] for row in reply.body["results"]]


@pytest.fixture
def desk(bench: Bench) -> Desk:
    bench.links = [FakeLink(n) for n in range(LINKS)]
    return Desk(bench)


def test_a_long_query_is_answered_in_slices(desk: Desk) -> None:
    desk.query("1")
    assert not desk.replies
    assert desk.finish() == 10
    assert desk.identities() == [str(n) for n in range(LINKS)]
    assert desk.replies[0].correlation_id == "1"


def test_other_requests_overtake_a_long_query(desk: Desk) -> None:
    desk.query("long")
    desk.query("short", count=2)
    desk.query("long too")
    desk.finish()
    assert [reply.correlation_id for reply in desk.replies] == ["short", "long", "long too"]
    assert [len(desk.identities(n)) for n in range(3)] == [2, LINKS, LINKS]


def test_entities_may_come_and_go_meanwhile(desk: Desk, bench: Bench) -> None:
    desk.query("1", offset=1)
    del bench.links[5:]
    bench.links.append(FakeLink(9999))
    desk.finish()
    assert desk.identities() == [str(n) for n in range(1, LINKS)]


def test_a_query_of_all_types_pages_through_them(desk: Desk) -> None:
    desk.ask("all", "QUERY", attributeNames=["identity"])
    desk.ask("page", "QUERY", attributeNames=["identity"], offset=20, count=100)
    desk.finish()
    assert desk.identities(1) == desk.identities(0)[20:120]


def test_rows_that_are_skipped_are_read_in_slices_too(desk: Desk) -> None:
    desk.ask("page", "QUERY", attributeNames=["identity", "linkName"], offset=LINKS, count=100)
    assert not desk.replies
    assert desk.finish() == 10
    assert desk.statuses() == {"page": 200}


def test_rows_are_filtered_and_sorted_in_slices(desk: Desk) -> None:
    desk.query("1", count=3)
    asked = {"operation": "QUERY", "entityType": "router.link", "where": "identity LIKE '%0'", **NODE}
    properties = {**asked, "orderBy": "identity DESC", "count": 3}
    body = {"attributeNames": ["identity"]}
    desk.service.on_request(
        encode_message(Message(reply_to="temp.1", application_properties=properties, body=body)), None
    )
    assert desk.finish() == 10
    assert desk.identities(1) == ["90", "80", "70"]


def test_rows_before_the_offset_of_one_type_are_not_read(desk: Desk, bench: Bench) -> None:
    desk.ask("page", "QUERY", entityType="router.link", attributeNames=["linkName"], offset=LINKS - 5, count=3)
    assert len(desk.replies[0].body["results"]) == len(bench.computed) == 3


def test_no_row_shows_a_change_that_came_after_the_query(desk: Desk, bench: Bench) -> None:
    for name in ("old", "doomed"):
        bench.agent.configure("sslProfile", {"name": name, "certFile": "/before"})
    bench.agent.configure("listener", {"name": "old", "sslProfile": "old"})
    desk.ask("all", "QUERY", attributeNames=["type", "name", "sslProfile", "enable"])
    bench.agent.configure("sslProfile", {"name": "new"})
    bench.adapters["sslProfile"].delete("sslProfile/doomed")
    bench.adapters["log"].update("log/DEFAULT", {"enable": "trace+"})
    desk.finish()
    rows = desk.replies[0].body["results"]
    assert [name for kind, name, *_ in rows if kind.endswith("sslProfile")] == ["old", "doomed"]
    assert "trace+" not in [row[3] for row in rows]


def test_an_adapter_that_fails_in_a_later_slice(desk: Desk, bench: Bench) -> None:
    bench.links[LINKS - 1].number = None  # type: ignore[assignment]
    desk.ask("1", "QUERY", entityType="router.link", attributeNames=["linkName"])
    del bench.links[LINKS - 1].number
    desk.finish()
    reply = desk.replies[0]
    assert reply.application_properties is not None
    assert reply.application_properties["statusCode"] == 500
    assert not desk.service.busy


def test_a_request_that_cannot_be_decoded_is_logged(desk: Desk) -> None:
    desk.service.on_request(b"\x00", None)
    assert desk.log
    assert not desk.replies


def test_a_connection_has_a_limited_number_of_long_queries(desk: Desk) -> None:
    greedy, modest = Client(), Client()
    for number in range(MOST + 2):
        desk.query(f"greedy {number}", greedy)
    assert desk.statuses() == {f"greedy {MOST}": 503, f"greedy {MOST + 1}": 503}
    desk.query("modest", modest)
    desk.ask("short", "READ", greedy)
    desk.finish()
    assert list(desk.statuses())[2:5] == ["short", "greedy 0", "modest"]
    assert set(list(desk.statuses().values())[2:]) == {200}
    assert len(desk.replies) == MOST + 4
    desk.query("greedy again", greedy)
    desk.finish()
    assert desk.statuses()["greedy again"] == 200


def test_long_queries_of_a_client_that_left_are_dropped(desk: Desk) -> None:
    left, stays, router = Client(), Client(), Client("inter-router")
    for name, client in (("left", left), ("stays", stays), ("router", router)):
        desk.query(name, client)
        desk.query(f"{name} too", client)
    left.over = router.over = True
    desk.finish()
    assert set(desk.statuses()) == {"stays", "stays too", "router", "router too"}
