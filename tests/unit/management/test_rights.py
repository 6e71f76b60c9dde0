"""Requests of clients that may only read: which are answered, which are passed on, and what is passed on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.management.fake_router import NODE, NOW, Bench
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.types import Symbol, encode
from waymesh_router.core.link_kinds import DATA, ENDPOINT, NO_MANAGEMENT, READ_MANAGEMENT, WRITE_MANAGEMENT
from waymesh_router.events.event import Event
from waymesh_router.management.look_ups import KnownNames, LookUps
from waymesh_router.management.request import MAX_VALUES, READ_OPERATIONS
from waymesh_router.management.rights import MAX_FORWARDED_BYTES, Rights
from waymesh_router.management.service import ManagementService

pytestmark = pytest.mark.engine_independent

OTHER = "_topo/0/B/$management"
REPLIES = "_topo/0/A/temp.1"


class _Connection(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]


class Desk:
    """A management service of router A, what it sent by address, what it logged and what it reported."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.sent: list[tuple[str, Message]] = []
        self.log: list[tuple[str, str]] = []
        self.events: list[Event | None] = []
        self.reported: list[tuple[str, ...]] = []
        self.reachable = True

        def log(level: str, text: str, event: Event | None = None, /) -> None:
            self.log.append((level, text))
            self.events.append(event)

        rights = Rights("A", lambda *report: self.reported.append(report[:2]), log)
        look_ups = LookUps(KnownNames(), lambda _names, _done: None)
        self.service = ManagementService(bench.agent, lambda: NOW, self._send, log, rights, look_ups)

    def _send(self, address: str, message: bytes) -> bool:
        if address != REPLIES and not self.reachable:
            return False
        self.sent.append((address, decode_message(message)))
        return True

    def put(
        self, data: bytes, to: str | None, right: int = READ_MANAGEMENT, kind: int = ENDPOINT, access: Any = None
    ) -> None:
        """A message on a link that was attached to an address; None for an anonymous one."""
        connection = _Connection(
            id=1,
            budget=0,
            management=right,
            management_files=False,
            multi_tenant=False,
            over=False,
            user="ann",
            role="normal",
            remote=None,
            origin="people",
            peer=SimpleNamespace(host="10.0.0.1:5"),
            settings=SimpleNamespace(client=False),
            access=access,
            edge_router=None,
            creates_link_routes=False,
        )
        link: Any = SimpleNamespace(connection=connection, kind=kind, annotations=SimpleNamespace(to=to))
        self.service.on_request(data, link)

    def ask(self, properties: dict[Any, Any], body: Any = None, to: str | None = "$management", **more: Any) -> None:
        request = Message(
            reply_to=REPLIES, correlation_id="c1", application_properties=properties, body=body or {}, to="elsewhere"
        )
        self.put(encode_message(request), to, **more)

    def status(self) -> int:
        """Status of the only reply."""
        ((address, reply),) = self.sent
        assert (address, reply.correlation_id) == (REPLIES, "c1")
        return int((reply.application_properties or {})["statusCode"])


@pytest.fixture
def desk(bench: Bench) -> Desk:
    return Desk(bench)


def test_the_operations_of_the_node_only_read() -> None:
    assert set(Bench().agent._node_operations) == READ_OPERATIONS


@pytest.mark.parametrize("operation", [*sorted(READ_OPERATIONS), "read", "Query", Symbol("QUERY"), b"QUERY"])
@pytest.mark.parametrize("to", ["$management", "_topo/0/A/$management", "_local/$management", None])
def test_who_may_read_reads(desk: Desk, operation: Any, to: str | None) -> None:
    desk.ask({"operation": operation, **NODE}, to=to)
    assert desk.status() == 200
    assert desk.reported == []


WRITES = ("CREATE", "UPDATE", "DELETE", "delete", "Update", "GET-ALL", "GET-", "READ ", " CREATE", "READ\0", "x" * 5000)


@pytest.mark.parametrize("operation", [*WRITES, Symbol("DELETE"), b"DELETE"])
@pytest.mark.parametrize("to", ["$management", OTHER, "_topo/0/all/$management", "_edge/E/$management", None])
def test_all_other_operations_are_forbidden(desk: Desk, operation: Any, to: str | None) -> None:
    desk.ask({"operation": operation, "type": "listener", "name": "x"}, {"port": "1"}, to=to)
    assert desk.status() == 403
    assert "people has no management: write" in desk.sent[0][1].application_properties["statusDescription"]  # type: ignore[index]
    assert desk.bench.events == []
    assert len(desk.reported) == 1
    ((level, text),) = desk.log
    (event,) = desk.events
    assert event is not None
    assert (event.kind, event.who["user"], event.host) == ("policy.denied", "ann", "10.0.0.1")
    assert level == "warning"
    assert "user=ann host=10.0.0.1:5 listener=people operation=" in text
    assert len(text) < 1000


@pytest.mark.parametrize("to", ["$management", OTHER])
@pytest.mark.parametrize("operation", [None, "", 5, ["READ"], b"\xff"])
def test_what_names_no_operation_goes_nowhere(desk: Desk, operation: Any, to: str) -> None:
    desk.ask({} if operation is None else {"operation": operation}, to=to)
    assert desk.status() == 400


def test_a_refused_request_without_reply_to_is_counted_and_logged(desk: Desk) -> None:
    desk.put(encode_message(Message(application_properties={"operation": "DELETE"}, body={})), OTHER)
    assert (desk.sent, len(desk.reported), len(desk.log)) == ([], 1, 1)


def test_a_request_that_cannot_be_decoded_goes_nowhere(desk: Desk) -> None:
    desk.put(b"\x00\x53\x74\xff", OTHER)
    assert (desk.sent, [level for level, _ in desk.log]) == ([], ["warning"])


def test_a_read_of_another_router_is_written_anew(desk: Desk) -> None:
    desk.ask({"operation": "query", "entityType": "router", **NODE}, {"attributeNames": ["id"]}, to=OTHER)
    ((address, request),) = desk.sent
    assert (address, request.to, request.reply_to, request.correlation_id) == (OTHER, OTHER, REPLIES, "c1")
    passed_on = {"operation": "QUERY", "entityType": "router", **NODE, "waymeshForReader": True}
    assert request.application_properties == passed_on
    assert request.body == {"attributeNames": ["id"]}


@pytest.mark.parametrize("key", [b"\xa1\x09operation", b"\xa3\x09operation"], ids=["twice", "as a symbol"])
@pytest.mark.parametrize("words", [("QUERY", "DELETE"), ("DELETE", "QUERY")])
def test_of_two_operations_only_the_one_that_was_checked_is_passed_on(
    desk: Desk, words: tuple[str, str], key: bytes
) -> None:
    """The other router could read the other one."""
    properties = {"operation": words[0], "operatioN": words[1], **NODE}
    data = encode_message(Message(reply_to=REPLIES, application_properties=properties, body={}))
    desk.put(data.replace(b"\xa1\x09operatioN", key), OTHER)
    for address, message in desk.sent:
        sent = encode_message(message)
        assert address == REPLIES or (sent.count(b"operation") == 1 and b"DELETE" not in sent)


def test_two_requests_in_one_message_are_none(desk: Desk) -> None:
    data = encode_message(Message(reply_to=REPLIES, application_properties={"operation": "READ"}, body={}))
    again = encode_message(Message(application_properties={"operation": "DELETE"}, body={}))
    desk.put(data + again, OTHER)
    assert desk.sent == []


def test_a_large_request_is_not_passed_on(desk: Desk) -> None:
    desk.ask({"operation": "QUERY", "pad": "x" * MAX_FORWARDED_BYTES}, to=OTHER)
    assert desk.status() == 400


def test_a_router_that_cannot_be_reached_is_said_to_be_so(desk: Desk) -> None:
    desk.reachable = False
    desk.ask({"operation": "QUERY", **NODE}, to="_topo/0/Z/$management")
    assert desk.status() == 503


def test_a_peer_without_any_right_may_not_even_read(desk: Desk) -> None:
    desk.ask({"operation": "READ", **NODE}, right=NO_MANAGEMENT)
    assert desk.status() == 403


@pytest.mark.parametrize(("right", "kind"), [(WRITE_MANAGEMENT, ENDPOINT), (NO_MANAGEMENT, DATA)])
def test_writers_and_other_routers_are_not_checked(desk: Desk, right: int, kind: int) -> None:
    desk.ask({"operation": "CREATE", "type": "listener", "name": "x"}, {"port": "1"}, right=right, kind=kind)
    assert desk.status() == 201


@pytest.mark.parametrize("right", [READ_MANAGEMENT, WRITE_MANAGEMENT])
@pytest.mark.parametrize("kind", [ENDPOINT, DATA])
def test_a_request_of_very_many_values_is_refused_before_they_are_decoded(desk: Desk, right: int, kind: int) -> None:
    operation = {"operation": "QUERY", **NODE}
    most = MAX_VALUES - 100
    desk.ask(operation, {"attributeNames": ["id"], "more": [None] * most}, right=right, kind=kind)
    assert desk.status() == 200
    desk.sent.clear()
    desk.ask(operation, {"attributeNames": ["id"], "more": [None] * MAX_VALUES}, right=right, kind=kind)
    ((address, reply),) = desk.sent
    assert (address, reply.correlation_id, reply.application_properties) == (
        REPLIES,
        "c1",
        {"statusCode": 400, "statusDescription": f"the request has more than {MAX_VALUES} values"},
    )


@pytest.mark.parametrize(
    "data",
    [
        encode_message(Message(message_id="m", body=[None] * MAX_VALUES)),
        encode_message(Message(body=[None] * MAX_VALUES)),
        b"\x00\x53\x73" + encode([None] * MAX_VALUES),
        b"\x00\x53\x73\x40" + encode_message(Message(body=[None] * MAX_VALUES)),
        *(b"\x00\x53\x72" + encode({"k": [None] * MAX_VALUES}) + b"\x00\x53\x73\xd0"[:size] for size in (1, 3, 4)),
    ],
    ids=["no reply-to", "no properties", "in the properties", "null as properties", "cut 1", "cut 3", "cut 4"],
)
def test_without_readable_properties_such_a_request_gets_no_answer(desk: Desk, data: bytes) -> None:
    desk.put(data, "$management")
    assert desk.sent == []


class Strict:
    """Policy that allows replies at REPLIES only."""

    dry_run = False

    def in_group(self) -> bool:
        return True

    def may_have_replies_at(self, text: str) -> bool:
        return text == REPLIES

    def only_would_deny(self, what: str) -> bool:
        assert what == "management: reply-to"
        return self.dry_run


@pytest.mark.parametrize("to", ["$management", OTHER])
def test_policy_limits_where_the_router_sends_replies(desk: Desk, to: str) -> None:
    for reply_to, dry_run, expected in ((REPLIES, False, 1), ("secret", False, 0), ("secret", True, 1)):
        desk.sent.clear()
        access = Strict()
        access.dry_run = dry_run
        request = Message(reply_to=reply_to, application_properties={"operation": "QUERY", **NODE}, body={})
        desk.put(encode_message(request), to, access=access)
        assert len(desk.sent) == expected, (reply_to, dry_run)
    assert desk.reported == [("reply-to", "amqp:unauthorized-access")]
    (line,) = [text for level, text in desk.log if level == "warning"]
    assert line.startswith("request dropped: user=ann host=10.0.0.1:5 reply-to='secret': policy does not allow")
