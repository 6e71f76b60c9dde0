"""Queries of many rows: answered in slices, while other requests are served and entities come and go."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.management.fake_router import NODE, NOW, Bench, FakeLink
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_router.management.query import ROWS_A_SLICE
from waymesh_router.management.service import ManagementService

pytestmark = pytest.mark.engine_independent

LINKS = 10 * ROWS_A_SLICE + 3


class Desk:
    """A management service and the replies that it sent, in their order."""

    def __init__(self, bench: Bench) -> None:
        self.replies: list[Message] = []
        self.log: list[tuple[str, str]] = []
        self.service = ManagementService(bench.agent, lambda: NOW, self._send, lambda *line: self.log.append(line))

    def _send(self, address: str, message: bytes) -> bool:
        assert address == "temp.1"
        self.replies.append(decode_message(message))
        return True

    def ask(self, number: str, operation: str, **body: Any) -> None:
        properties = {"operation": operation, **NODE}
        request = Message(reply_to="temp.1", correlation_id=number, application_properties=properties, body=body)
        self.service.on_request(encode_message(request), None)

    def query(self, number: str, **body: Any) -> None:
        self.ask(number, "QUERY", entityType="router.link", attributeNames=["identity"], **body)

    def finish(self) -> int:
        """Work until nothing is left; the number of slices."""
        slices = 0
        while self.service.busy:
            self.service.work()
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
