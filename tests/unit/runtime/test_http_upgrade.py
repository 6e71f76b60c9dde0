"""Which requests open a WebSocket. Without sockets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_router.runtime.http.message import Answer, BadRequest, Exchange
from waymesh_router.runtime.http.origins import Origins, host_name
from waymesh_router.runtime.http.site import Site

pytestmark = pytest.mark.engine_independent

ASKING = {
    "Host": "router:8080",
    "Connection": "keep-alive, Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": "binary, amqp",
    "Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits",
}
"""With the key of RFC 6455, 1.3."""


def exchanged(
    fields: dict[str, str], attrs: dict[str, Any], line: str = "GET / HTTP/1.1", behind: bytes = b""
) -> bytes:
    """The answer of a listener."""
    exchange = Exchange()
    head = "\r\n".join([line, *(f"{name}: {value}" for name, value in fields.items() if value)])
    try:
        request = exchange.receive(head.encode("latin-1") + b"\r\n\r\n" + behind)
        assert request is not None
        answer: Answer = Site({"name": "web"} | attrs, lambda _: None).answer(request, secure=False)
    except BadRequest as error:
        answer = error.answer
    assert (answer.stream is not None) == (answer.status == 101)
    return exchange.encode(answer)


def test_a_web_socket_opens() -> None:
    head, _, rest = exchanged(ASKING, {}).partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "http/1.1 101 switching protocols"
    assert sorted(lines[1:]) == [
        "connection: upgrade",
        "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=",
        "sec-websocket-protocol: amqp",
        "upgrade: websocket",
    ]
    assert rest == b""


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"Sec-WebSocket-Protocol": "mqtt"}, 400),
        ({"Sec-WebSocket-Protocol": ""}, 400),
        ({"Sec-WebSocket-Protocol": "AMQP"}, 400),
        ({"Sec-WebSocket-Key": ""}, 400),
        ({"Sec-WebSocket-Version": ""}, 400),
        ({"Sec-WebSocket-Version": "8"}, 426),
        ({"Connection": "close"}, 400),
        ({"Upgrade": "h2c"}, 404),
        ({"Upgrade": ""}, 404),
        ({"Host": ""}, 400),
        ({"Host": "\xe4" * 70}, 400),
        ({"Sec-WebSocket-Protocol": "\xe4"}, 400),
        ({"Origin": "https://other"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_refusals(changed: dict[str, str], status: int) -> None:
    answer = exchanged(ASKING | changed, {})
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    if status == 426:
        assert b"sec-websocket-version: 13\r\n" in answer.lower()


def test_the_older_name_of_the_subprotocol() -> None:
    answer = exchanged(ASKING | {"Sec-WebSocket-Protocol": "binary, mqtt"}, {})
    assert b"sec-websocket-protocol: binary\r\n" in answer.lower()


def test_listeners_without_web_sockets_have_none() -> None:
    assert exchanged(ASKING, {"websockets": False}).startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize("line", ["POST / HTTP/1.1", "HEAD / HTTP/1.1", "GET / HTTP/1.0"])
def test_other_requests_do_not_change_to_web_socket(line: str) -> None:
    assert not exchanged(ASKING, {}, line).startswith(b"HTTP/1.1 101 ")


def test_a_client_waits_for_the_answer() -> None:
    assert exchanged(ASKING, {}, behind=b"\x82").startswith(b"HTTP/1.1 400 ")


TEXT = st.text(st.characters(codec="latin-1"), max_size=20)


@given(st.dictionaries(st.sampled_from(sorted({*ASKING, "Origin"})), TEXT))
def test_any_request_has_an_answer(changed: dict[str, str]) -> None:
    printable = {name: "".join(filter(str.isprintable, value)) for name, value in changed.items()}
    assert exchanged(ASKING | printable, {}).startswith(b"HTTP/1.1 ")


@pytest.mark.parametrize(
    ("allowed", "origin", "host", "secure", "admitted"),
    [
        ("", None, "a", False, True),
        ("", "http://a", "a", False, True),
        ("", "http://a:80", "A", False, True),
        ("", "https://a", "a:443", True, True),
        ("", "http://a:8080", "a:8080", False, True),
        ("", "http://[::1]:8080", "[::1]:8080", False, True),
        ("", "http://a", "a", True, False),
        ("", "https://a", "a", False, False),
        ("", "http://a:8080", "a", False, False),
        ("", "http://a.b", "a", False, False),
        ("", "null", "null", False, False),
        ("", "", "", False, False),
        ("https://b https://c:8443", "https://b", "a", True, True),
        ("https://b https://c:8443", "https://c:8443", "a", True, True),
        ("https://b:443", "https://B", "a", True, True),
        ("https://b", "http://b", "a", True, False),
        ("https://b", "https://b, https://b", "a", True, False),
        ("https://b", "https://b.evil", "a", True, False),
        ("*", "https://anywhere", "a", True, True),
        ("*", "null", "a", True, True),
    ],
)
def test_origins(allowed: str, origin: str | None, host: str, secure: bool, admitted: bool) -> None:
    assert Origins(allowed).admit(origin, host, secure=secure) is admitted


@pytest.mark.parametrize(
    ("field", "name"),
    [("", ""), ("a", "a"), ("a:8080", "a"), ("127.0.0.1:80", "127.0.0.1"), ("[::1]", "[::1]"), ("[::1]:80", "[::1]")],
)
def test_the_name_in_the_field_host(field: str, name: str) -> None:
    assert host_name(field) == name
