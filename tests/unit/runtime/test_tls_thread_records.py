"""Records for a connection that is with a thread: forged, cut, in parts, and without data."""

from __future__ import annotations

import _ssl
import contextlib
import ctypes
import hashlib
import os
import socket
from collections.abc import Iterator

import pytest

from tests.kit.certificates import Authority, KeyPair
from tests.unit.runtime.tls_scene import End, Scene
from waymesh_router.runtime.tls.sockets import MAX_WITHOUT_DATA, TlsSocket
from waymesh_router.runtime.transport.tls_threads import object_of


@pytest.fixture
def scene(authority: Authority, server: KeyPair) -> Iterator[Scene]:
    with contextlib.closing(Scene(authority, server)) as scene:
        yield scene


def lent(scene: Scene) -> tuple[End, TlsSocket]:
    """The end that is with a thread, and the socket of the other one, which the test uses itself."""
    one, other = scene.ends
    scene.threads.move(one.io)
    assert scene.moved == 1
    other.be_deaf()
    return one, other.io.tls


def test_the_data_before_a_forged_record_is_read(scene: Scene) -> None:
    one, far = lent(scene)
    far.send(b"true")
    with socket.socket(fileno=os.dup(far.fileno())) as plain:
        plain.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
    scene.run(lambda: bool(one.ends))
    assert one.octets_heard == len(b"true")
    assert "bad record mac" in one.ends[0]


def test_a_record_that_is_too_long_ends_the_connection_at_once(scene: Scene) -> None:
    one, far = lent(scene)
    with socket.socket(fileno=os.dup(far.fileno())) as plain:
        plain.sendall(b"\x17\x03\x03\xff\xff")
    scene.run(lambda: bool(one.ends))
    assert len(one.ends) == 1


@pytest.mark.parametrize("kind", [0, 1], ids=["own keys", "keys of both"])
@pytest.mark.parametrize("returns", [False, True])
def test_records_without_data_are_counted_wherever_the_connection_is(scene: Scene, kind: int, returns: bool) -> None:
    one, far = lent(scene)
    library, found = ctypes.CDLL(_ssl.__file__), ctypes.c_void_p(object_of(far.tls))
    for number in range(MAX_WITHOUT_DATA + 1):
        assert not one.ends
        assert library.SSL_key_update(found, kind) == 1
        far.tls.do_handshake()
        far.do_handshake()  # writes it
        if number % 256 == 255:
            scene.turns(20)
            if returns:
                one.io.give_back()
                scene.turns(20)
                scene.threads.move(one.io)
                assert scene.moved == 1
    scene.run(lambda: bool(one.ends))
    assert one.ends == ["too many TLS records without data"]


def test_a_few_records_without_data_before_others_do_no_harm(scene: Scene) -> None:
    one, far = lent(scene)
    library, found = ctypes.CDLL(_ssl.__file__), ctypes.c_void_p(object_of(far.tls))
    for _ in range(3 * MAX_WITHOUT_DATA):
        assert library.SSL_key_update(found, 0) == 1
        far.tls.do_handshake()
        far.do_handshake()
        far.send(b"x")
        scene.turns(1)
    scene.run(lambda: one.octets_heard == 3 * MAX_WITHOUT_DATA)
    assert not one.ends


@pytest.mark.parametrize("cut", [0, 1, 5, 6, 9000, 16388, 16389, 16406, 16407, 16410, 20_000])
def test_a_peer_that_is_cut_at_any_octet_ends_behind_its_whole_records(scene: Scene, cut: int) -> None:
    one, far = lent(scene)
    whole = 16384 + 22  # its header, type and tag
    records = records_of(far, b"a" * 16384, b"b" * 10_000)
    assert len(records) > 20_000
    with socket.socket(fileno=os.dup(far.fileno())) as plain:
        plain.sendall(records[:cut])
        plain.shutdown(socket.SHUT_WR)
    scene.run(lambda: bool(one.ends))
    assert one.octets_heard == (16384 if cut >= whole else 0)
    assert one.ends == ["closed by the peer"]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_records_may_arrive_in_parts_while_the_connection_moves(scene: Scene, size: int) -> None:
    one, far = lent(scene)
    records = records_of(far, b"a" * 5, b"b" * 300, b"c")
    with socket.socket(fileno=os.dup(far.fileno())) as plain:
        for at in range(0, len(records), size):
            plain.sendall(records[at : at + size])
            scene.turns(2)
            if scene.moved:
                one.io.give_back()
            else:
                scene.threads.move(one.io)
    scene.run(lambda: one.octets_heard == 306)
    assert one.heard.digest() == hashlib.sha256(b"a" * 5 + b"b" * 300 + b"c").digest()


def records_of(far: TlsSocket, *data: bytes) -> bytes:
    """Records with this data, which are not sent: OpenSSL writes them into a pipe instead of the socket."""
    one, other = socket.socketpair()
    kept = os.dup(far.fileno())
    other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    os.dup2(other.fileno(), far.fileno())
    try:
        for each in data:
            far.send(each)
    finally:
        os.dup2(kept, far.fileno())
        os.close(kept)
        other.close()
    with one:
        found = b""
        while octets := one.recv(1 << 20):
            found += octets
        return found
