"""The management client against a proton server: real replies of the agent, and faults."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Iterator
from types import SimpleNamespace

import proton
import pytest

from tests.kit.ports import free_port
from tests.unit.client.fake_server import FakeServer, agent_answer, reply_with, silent
from tests.unit.management.fake_router import PREFIX, Bench, FakeLink
from waymesh_client import channel
from waymesh_client.channel import Endpoint
from waymesh_client.errors import BadReply, ConnectionFailed, ManagementError, NoRoute, RequestTimeout
from waymesh_client.management import PAGE, ManagementClient, long_type

pytestmark = pytest.mark.engine_independent


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def server(bench: Bench) -> Iterator[FakeServer]:
    with FakeServer(agent_answer(bench.agent)) as server:
        yield server


@pytest.fixture
def client(server: FakeServer) -> Iterator[ManagementClient]:
    with ManagementClient(server.url) as client:
        yield client


def test_query(client: ManagementClient, server: FakeServer) -> None:
    rows = client.query("router.link", ["identity", "linkName"])
    assert rows == [{"identity": str(n), "linkName": f"link-{n}"} for n in range(3)]
    assert server.addresses == ["$management"]
    properties, _ = server.request(0)
    assert properties["operation"] == "QUERY"
    assert properties["entityType"] == PREFIX + "router.link"
    assert (properties["type"], properties["name"]) == ("org.amqp.management", "self")


@pytest.mark.parametrize("count", [PAGE - 1, PAGE, PAGE + 1, 2 * PAGE + 7])
def test_query_reads_all_pages(client: ManagementClient, bench: Bench, server: FakeServer, count: int) -> None:
    bench.links = [FakeLink(n) for n in range(count)]
    rows = client.query("router.link", ["identity"])
    assert [row["identity"] for row in rows] == [str(n) for n in range(count)]
    assert len(server.requests) == count // PAGE + 1


def test_a_page_is_requested_when_the_one_before_was_taken(
    client: ManagementClient, bench: Bench, server: FakeServer
) -> None:
    bench.links = [FakeLink(n) for n in range(PAGE + 1)]
    pages = client.pages("router.link", ["identity"])
    assert [row["identity"] for row in next(pages)] == [str(n) for n in range(PAGE)]
    assert len(server.requests) == 1
    assert list(pages) == [[{"identity": str(PAGE)}]]


def test_equal_rows_of_many_pages_are_all_read(client: ManagementClient, bench: Bench) -> None:
    bench.links = [FakeLink(n) for n in range(2 * PAGE + 7)]
    assert client.query("router.link", ["linkType"]) == [{"linkType": None}] * (2 * PAGE + 7)


@pytest.mark.parametrize(("limit", "expected"), [(1, 1), (3, 3), (9, 3)])
def test_query_with_a_limit(client: ManagementClient, limit: int, expected: int) -> None:
    assert len(client.query("router.link", ["identity"], limit=limit)) == expected


@pytest.mark.parametrize("rows", [PAGE, PAGE + 5])
def test_query_of_a_router_that_does_not_page(rows: int) -> None:
    body = {"attributeNames": ["identity"], "results": [[str(n)] for n in range(rows)]}
    with (
        FakeServer(reply_with({"statusCode": proton.int32(200)}, body)) as server,
        ManagementClient(server.url) as client,
    ):
        assert len(client.query("router.link")) == rows


def test_values_are_plain_python(client: ManagementClient) -> None:
    row = client.read("router")
    assert type(row["uptimeSeconds"]) is int
    assert type(row["type"]) is str
    assert row["type"] == PREFIX + "router"


def test_create_read_update_delete(client: ManagementClient) -> None:
    created = client.create("listener", {"port": "7001", "host": "127.0.0.1"}, name="l")
    assert created["identity"] == "listener/127.0.0.1:7001:l"
    assert client.read("listener", name="l") == client.read(identity=created["identity"]) == created
    assert client.update({"enable": "debug+"}, "log", name="log/DEFAULT")["enable"] == "debug+"
    client.delete("listener", name="l")
    with pytest.raises(ManagementError) as raised:
        client.read("listener", name="l")
    assert raised.value.status == 404
    assert "l" in raised.value.description


def test_nodes_and_operations(client: ManagementClient) -> None:
    assert client.nodes() == ["amqp:/_topo/0/A/$management", "amqp:/_topo/0/B/$management"]
    assert client.node_operation("GET-LOG", limit=1) == [["AGENT", "info", "hello", "", 0, 1]]
    with pytest.raises(ManagementError, match="DANCE") as raised:
        client.operation("DANCE")
    assert raised.value.status == 501


def test_other_routers_over_the_same_connection(client: ManagementClient, server: FakeServer) -> None:
    assert client.at("B").read("router")["id"] == "A"
    assert client.read("router")["id"] == "A"
    assert server.addresses == ["_topo/0/B/$management", "$management"]
    assert server.connections == 1
    with ManagementClient(server.url, router="C") as other:
        other.nodes()
    assert server.addresses[-1] == "_topo/0/C/$management"


# Faults.


def test_nobody_listens() -> None:
    port = free_port()
    with pytest.raises(ConnectionFailed) as raised, ManagementClient(f"127.0.0.1:{port}"):
        pass
    assert (raised.value.host, raised.value.port) == ("127.0.0.1", port)
    assert "refused" in raised.value.reason
    assert str(port) in str(raised.value)


def test_time_out_and_recovery(server: FakeServer, bench: Bench) -> None:
    answer, server.answer = server.answer, silent
    with ManagementClient(server.url) as client:
        usual = client._channel._timeout_s
        client._channel._timeout_s = client._channel.connect().timeout = 0.3
        with pytest.raises(RequestTimeout, match=r"0\.3 s"):
            client.read("router")
        server.answer = answer
        client._channel._timeout_s = usual  # of the next connection
        assert client.read("router")["id"] == "A"


def test_connection_that_was_not_used_for_long_is_opened_anew(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A router has ended it meanwhile, as no heartbeats came."""
    later = 0.0
    monkeypatch.setattr(channel, "time", SimpleNamespace(monotonic=lambda: later))
    with ManagementClient(server.url) as client:
        client.renew_after(4.0)
        assert client.answered_at == float("-inf")
        for later in (3.9, 7.8):  # noqa: B007
            client.read("router")
        assert (server.connections, client.answered_at) == (1, 7.8)
        server.close_connections()
        later = 11.8
        assert client.read("router")["id"] == "A"
        assert (server.connections, client.answered_at) == (2, 11.8)


def test_connection_closed_by_the_router() -> None:
    with FakeServer(silent, close_on_request=True) as server, ManagementClient(server.url) as client:
        with pytest.raises(ConnectionFailed, match="closed by management"):
            client.read("router")


def test_no_such_router() -> None:
    with FakeServer(silent, refuse_link=True) as server, ManagementClient(server.url, router="X") as client:
        with pytest.raises(NoRoute, match=r"_topo/0/X/\$management: No route to the destination node"):
            client.read("router")


@pytest.mark.parametrize(
    ("properties", "body"),
    [
        (None, {}),
        ({"statusDescription": "OK"}, {}),
        ({"statusCode": "fine"}, {}),
        ({"statusCode": 200}, "text"),
        ({"statusCode": 200}, {"results": 5}),
        ({"statusCode": 200}, {"attributeNames": ["a"]}),
    ],
)
def test_bad_replies(properties: dict[str, object] | None, body: object) -> None:
    with FakeServer(reply_with(properties, body)) as server, ManagementClient(server.url) as client:
        with pytest.raises(BadReply):
            client.query("router")


# Addresses and names.


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("example.com", ("amqp", "example.com", 5672, None, None, None)),
        (":5555", ("amqp", "127.0.0.1", 5555, None, None, None)),
        ("amqps://h", ("amqps", "h", 5671, None, None, None)),
        ("amqp://u:p%40s@h:1/_topo/0/R/$management", ("amqp", "h", 1, "_topo/0/R/$management", "u", "p@s")),
        ("[::1]:5672", ("amqp", "::1", 5672, None, None, None)),
    ],
)
def test_urls(url: str, expected: tuple[object, ...]) -> None:
    found = Endpoint.parse(url)
    assert (found.scheme, found.host, found.port, found.path, found.user, found.password) == expected


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(Endpoint.parse("amqp://u:secret@h"))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://u:secret@h", "the scheme must be amqp or amqps"),
        ("amqp://u:secret@h:99999", "the port must be a number up to 65535"),
        ("u:secret@h:x", "the port must be a number up to 65535"),
        ("amqp://u:sec/ret@h", "the port must be a number up to 65535"),
        ("amqp://u:secret@[::1", "is not a URL"),
        ("amqp://u:secret\u2100@h", "is not a URL"),
    ],
)
def test_the_error_of_a_url_has_no_password(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        ManagementClient(url)
    assert "sec" not in str(refused.value)


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_a_host_that_can_be_no_host_name(host: str) -> None:
    with pytest.raises(ConnectionFailed, match="cannot reach a router at"), ManagementClient(f"amqp://{host}:1"):
        pass


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (None, None),
        ("", None),
        ("listener", PREFIX + "listener"),
        ("link", PREFIX + "router.link"),
        ("router.link", PREFIX + "router.link"),
        ("address", PREFIX + "router.config.address"),
        ("router.address", PREFIX + "router.address"),
        ("org.amqp.management", "org.amqp.management"),
    ],
)
def test_long_type_names(name: str | None, expected: str | None) -> None:
    assert long_type(name) == expected


@pytest.mark.parametrize("refuse_link", [False, True])
def test_a_closed_client_leaves_nothing_of_its_connection(bench: Bench, refuse_link: bool) -> None:
    answer = agent_answer(bench.agent)
    with FakeServer(answer, refuse_link=refuse_link) as server, ManagementClient(server.url) as client:
        container = weakref.ref(client._channel.connect().container)
        with contextlib.suppress(NoRoute):
            client.read("router")
    gc.collect()
    assert container() is None
