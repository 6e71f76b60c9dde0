"""A connection over TLS reads and writes much at once; a turn does a limited amount of work for it."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable

import pytest

from tests.kit.certificates import Authority, KeyPair
from tests.kit.waiting import DEADLINE_S
from tests.unit.runtime.fakes import FakeRouter
from tests.unit.runtime.test_connection_io_end import RecordingConnection, RecordingOwner
from waymesh_router.peers.peer import Peer
from waymesh_router.runtime.tls.sockets import MAX_WITHOUT_DATA, TlsSocket
from waymesh_router.runtime.transport.connection_io import continue_all_inputs
from waymesh_router.runtime.transport.receive_buffer import ReceiveBuffer
from waymesh_router.runtime.transport.tls_connection_io import TlsConnectionIO

RECORDS_PER_TURN, EMPTY_PER_TURN = 256, 64


class WaitingOwner(RecordingOwner):
    """Also records the awaited events."""

    mask = select.EPOLLIN

    def await_events(self, fd: int, mask: int) -> None:
        self.mask = mask


class Scene:
    """A TLS server, `far`, whose records the test composes in memory, and a client of the router."""

    def __init__(self, authority: Authority, server: KeyPair, tickets: int = 0) -> None:
        ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ours.load_cert_chain(server.cert, server.key)
        ours.num_tickets = tickets
        trust = ssl.create_default_context(cafile=str(authority.cert))
        self.sock, self.far = socket.socketpair()
        for end in (self.sock, self.far):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self.inbox, self.outbox = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = ours.wrap_bio(self.inbox, self.outbox, server_side=True)
        self.tls = TlsSocket(trust, self.sock, server=False, host="localhost")
        self._shake(self.tls.do_handshake, self._answer)
        self.owner = WaitingOwner()
        self.conn = RecordingConnection(FakeRouter(), Peer("peer"))
        self.buffer = ReceiveBuffer()
        self.io = TlsConnectionIO(self.owner, self.tls, self.conn, self.buffer)

    def _shake(self, *steps: Callable[[], None]) -> None:
        waiting = [*steps]
        while waiting:
            step = waiting.pop(0)
            try:
                step()
            except ssl.SSLWantReadError:
                waiting.append(step)

    def _answer(self) -> None:
        try:
            self.inbox.write(self.far.recv(1 << 16))
        except BlockingIOError:
            raise ssl.SSLWantReadError from None
        try:
            self.server.do_handshake()
        finally:
            self.far.sendall(self.outbox.read())

    def records(self, *data: bytes) -> bytes:
        """A record for each."""
        return b"".join(self._record(each) for each in data)

    def _record(self, data: bytes) -> bytes:
        self.server.write(data)
        return self.outbox.read()

    def turn(self) -> None:
        """An event, as far as epoll reports one, then the input left from the turn before."""
        left = [*self.buffer.ready]
        if select.select([self.sock], [], [], 0)[0]:
            self.io.on_event(select.EPOLLIN)
        if left:
            continue_all_inputs(self.buffer)

    def turns(self) -> int:
        """Turns until nothing is left."""
        assert select.select([self.sock], [], [], DEADLINE_S)[0]
        count = 0
        while self.io.open and (self.buffer.ready or select.select([self.sock], [], [], 0)[0]):
            self.turn()
            count += 1
        return count

    def heard(self) -> bytes:
        """What has arrived at the far end."""
        self.inbox.write(self.far.recv(1 << 22))
        data = b""
        while True:
            try:
                data += self.server.read(1 << 16)
            except ssl.SSLWantReadError:
                return data


@pytest.fixture
def scene(authority: Authority, server: KeyPair) -> Scene:
    return Scene(authority, server)


def test_all_records_that_have_arrived_are_read_in_one_turn(scene: Scene) -> None:
    scene.far.sendall(scene.records(*(b"%06d" % number for number in range(200))))
    assert scene.turns() == 1
    assert scene.conn.got == b"".join(b"%06d" % number for number in range(200))


def test_many_small_records_take_several_turns(scene: Scene) -> None:
    scene.far.sendall(scene.records(*[b"x"] * (3 * RECORDS_PER_TURN + 1)))
    assert scene.turns() == 4
    assert len(scene.conn.got) == 3 * RECORDS_PER_TURN + 1


def test_records_without_data_take_a_turn_for_each_64(authority: Authority, server: KeyPair) -> None:
    scene = Scene(authority, server, tickets=4 * EMPTY_PER_TURN)  # session tickets
    scene.far.sendall(scene.records(b"after them"))
    assert scene.turns() >= 4
    assert scene.conn.got == b"after them"


def test_too_many_records_without_data_end_the_connection(authority: Authority, server: KeyPair) -> None:
    scene = Scene(authority, server, tickets=MAX_WITHOUT_DATA + 2 * EMPTY_PER_TURN)
    scene.turns()
    assert scene.owner.reasons == ["too many TLS records without data"]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_records_may_arrive_in_parts_of_any_size(scene: Scene, size: int) -> None:
    data = [b"a" * 5, b"b" * 2000, b"c"]
    octets = scene.records(*data)
    for at in range(0, len(octets), size):
        scene.far.sendall(octets[at : at + size])
        scene.turns()
    assert scene.conn.got == b"".join(data)


def test_the_rest_of_a_large_record_may_be_less_than_its_data(scene: Scene) -> None:
    octets = scene.records(b"d" * 16384, b"e" * 16384)
    scene.far.sendall(octets[: len(octets) - 1])
    scene.turns()
    assert scene.conn.got == b"d" * 16384
    scene.far.sendall(octets[-1:])
    scene.turns()
    assert scene.conn.got == b"d" * 16384 + b"e" * 16384


def test_the_data_before_close_notify_is_read(scene: Scene) -> None:
    octets = scene.records(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        scene.server.unwrap()
    scene.far.sendall(octets + scene.outbox.read())
    scene.turns()
    assert scene.conn.got == b"last"
    assert scene.owner.reasons == ["closed by the peer"]


def test_the_data_before_a_forged_record_is_read(scene: Scene) -> None:
    octets = bytearray(scene.records(b"true", b"false"))
    octets[-1] ^= 1
    scene.far.sendall(octets)
    scene.turns()
    assert scene.conn.got == b"true"
    assert scene.owner.reasons


def test_a_record_that_is_too_long_ends_the_connection_at_once(scene: Scene) -> None:
    scene.far.sendall(b"\x17\x03\x03\xff\xff")
    scene.turns()
    assert len(scene.owner.reasons) == 1


def test_a_peer_that_ends_within_a_record_is_closed(scene: Scene) -> None:
    scene.far.sendall(scene.records(b"whole", b"not whole")[:-1])
    scene.far.close()
    scene.turns()
    assert scene.conn.got == b"whole"
    assert scene.owner.reasons == ["closed by the peer"]


def test_output_of_several_records_arrives_as_the_peer_reads(scene: Scene) -> None:
    sent = b"".join(b"%07d\n" % number for number in range(1 << 17))
    scene.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    scene.conn.say(sent)
    scene.io.flush()
    assert scene.owner.mask & select.EPOLLOUT, "the socket took all"
    got = b""
    while len(got) < len(sent):
        got += scene.heard()
        scene.io.on_event(select.EPOLLOUT)
    assert got == sent
    assert not scene.owner.mask & select.EPOLLOUT
