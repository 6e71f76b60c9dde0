"""The host name in the ClientHello of TLS clients: of real clients, in fragments, and in invalid data."""

from __future__ import annotations

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_router.runtime.tls.client_hello import MAX_BYTES, MAX_RECORDS, complete, requested_host

pytestmark = pytest.mark.engine_independent


def hello(host: str | None, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """The ClientHello of a client of `ssl`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.maximum_version = version
    written = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), written, server_hostname=host).do_handshake()
    return written.read()


def in_records(message: bytes, size: int) -> bytes:
    """The same message in records of this many bytes."""
    content = message[5:]
    parts = [content[at : at + size] for at in range(0, len(content), size)]
    return b"".join(message[:3] + len(part).to_bytes(2, "big") + part for part in parts)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("host", ["orders.example", "a.b.example", None])
def test_the_host_of_a_real_client_is_found(host: str | None, version: ssl.TLSVersion) -> None:
    message = hello(host, version)
    assert complete(message)
    assert requested_host(message) == host


def test_an_address_is_no_host_name() -> None:
    assert requested_host(hello("127.0.0.1")) is None


def test_the_message_is_complete_with_its_last_byte_and_not_before() -> None:
    message = hello("orders.example")
    assert [size for size in range(1, len(message)) if complete(message[:size])] == []
    assert complete(message + b"more")
    assert requested_host(message + b"\x14\x03\x03\x00\x01\x01") == "orders.example", "early data may follow"


def test_a_message_in_very_many_records_is_left_to_openssl() -> None:
    message = in_records(hello("orders.example"), 1)
    assert complete(message[: 6 * MAX_RECORDS + 1])
    assert requested_host(message) is None


@pytest.mark.parametrize("size", [20, 100])
def test_a_message_in_several_records_is_read(size: int) -> None:
    message = in_records(hello("orders.example"), size)
    assert not complete(message[:-1])
    assert complete(message)
    assert requested_host(message) == "orders.example"


@pytest.mark.parametrize("data", [b"\x15\x03\x01\x00\x02\x02\x28", b"\x16\x03\x01\x00\x01\x02", b"GET / HTTP"])
def test_what_is_no_client_hello_is_not_waited_for(data: bytes) -> None:
    assert complete(data)
    assert requested_host(data) is None


def test_an_endless_message_is_not_waited_for() -> None:
    endless = b"\x16\x03\x01\x40\x00\x01\xff\xff\xff".ljust(MAX_BYTES, b"x")
    assert not complete(endless[:1000])
    assert complete(endless)
    assert requested_host(endless) is None


@given(st.binary(max_size=300))
def test_rubbish_has_no_host_or_one_of_ascii(data: bytes) -> None:
    for text in (data, b"\x16\x03\x01" + len(data).to_bytes(2, "big") + b"\x01" + data):
        complete(text)
        assert (requested_host(text) or "").isascii()


@given(st.data())
def test_damage_to_a_real_message_raises_nothing(data: st.DataObject) -> None:
    message = bytearray(hello("orders.example"))
    for _ in range(3):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    complete(bytes(message))
    requested_host(bytes(message))
