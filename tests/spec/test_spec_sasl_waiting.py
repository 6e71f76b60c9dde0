"""SASL answers that are computed outside the loop: the connection waits, and keeps the peer's further input."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kit import frames
from tests.kit.frames import AMQP, SASL
from tests.kit.recorder import Recorder
from waymesh_amqp.connection import Connection
from waymesh_amqp.handler import Handler
from waymesh_amqp.performatives import SaslInit, SaslOutcome, encode_frame
from waymesh_amqp.sasl import SaslClient, SaslServer, UserFile, make_line
from waymesh_amqp.settings import ConnectionSettings

USERS = UserFile.parse(make_line("ann", "secret") + "\nbob:{plain}secret")
PLAIN = encode_frame(0, SaslInit("PLAIN", b"\0ann\0secret"))
WRONG = encode_frame(0, SaslInit("PLAIN", b"\0ann\0wrong"))


class Elsewhere:
    """Where work is done: when the test says so. `room`: whether there is any."""

    def __init__(self, room: bool = True) -> None:
        self.room = room
        self.work: list[tuple[Connection, Callable[[], bytes]]] = []

    def offload(self, conn: Connection, work: Callable[[], bytes]) -> bool:
        if self.room:
            self.work.append((conn, work))
        return self.room

    def finish(self) -> None:
        conn, work = self.work.pop()
        conn.resume(work())


def server(elsewhere: Elsewhere, users: UserFile = USERS) -> Connection:
    sasl = SaslServer(("PLAIN", "SCRAM-SHA-256", "ANONYMOUS"), users)
    settings = ConnectionSettings("s", sasl=sasl, require_sasl=True, offload=elsewhere.offload)
    return Connection(settings, handler(), 0.0)


def handler() -> Handler:
    return Recorder()


def give(conn: Connection, data: bytes) -> bytes:
    """Have the connection read; what it did not use."""
    used = conn.receive(memoryview(bytearray(data + b"\0" * 64)), len(data))
    return data[used:]


def taken(conn: Connection) -> bytes:
    conn.flush()
    data = bytes(conn.pending())
    conn.sent(len(data))
    return data


def test_what_is_sent_ahead_waits_for_the_answer() -> None:
    elsewhere = Elsewhere()
    conn = server(elsewhere)
    ahead = AMQP + frames.open_() + frames.begin()
    assert give(conn, SASL + PLAIN + ahead) == ahead
    offered = taken(conn)
    assert give(conn, ahead) == ahead, "nothing is taken in while the answer is not there"
    assert taken(conn) == b""
    elsewhere.finish()
    assert taken(conn) == encode_frame(0, SaslOutcome(code=0))
    assert give(conn, ahead) == b""
    assert taken(conn).startswith(AMQP)
    assert (conn.user, conn.remote is not None, offered[:8]) == ("ann", True, SASL)


def test_a_refusal_ends_the_connection() -> None:
    elsewhere = Elsewhere()
    conn = server(elsewhere)
    give(conn, SASL + WRONG)
    taken(conn)
    assert not conn.done
    elsewhere.finish()
    assert taken(conn) == encode_frame(0, SaslOutcome(code=1))
    assert conn.done


def test_a_peer_that_sends_too_much_ahead_is_cut_off_and_the_answer_comes_too_late() -> None:
    elsewhere = Elsewhere()
    conn = server(elsewhere)
    rest = give(conn, SASL + PLAIN + b"x" * 65536)
    assert not conn.done
    give(conn, rest + b"x")
    assert conn.error is not None, "the connection has ended"
    assert "octets before the end of the SASL exchange" in (conn.error.description or "")
    taken(conn)
    elsewhere.finish()
    assert taken(conn) == b""
    assert conn.user is None


def test_the_handshake_time_out_goes_on_while_the_answer_is_awaited() -> None:
    elsewhere = Elsewhere()
    conn = server(elsewhere)
    give(conn, SASL + PLAIN)
    conn.tick(1000.0)
    assert conn.done
    elsewhere.finish()
    assert conn.user is None


def test_without_room_the_client_is_told_to_come_back_later() -> None:
    conn = server(Elsewhere(room=False))
    give(conn, SASL + PLAIN)
    assert taken(conn).endswith(encode_frame(0, SaslOutcome(code=4)))
    assert conn.done
    assert conn.error is not None
    assert conn.error.description == "too many peers log in at the same time"


@pytest.mark.parametrize("user", ["ann", "bob", "nobody"])
def test_only_what_takes_key_derivation_is_done_elsewhere_and_for_everybody(user: str) -> None:
    """PLAIN against stored keys always; SCRAM where passwords are stored plainly, until all keys are derived."""
    mixed = UserFile.parse(make_line("ann", "secret") + "\nbob:{plain}secret")
    stored = UserFile.parse(make_line("ann", "secret"))
    plain = UserFile.parse("bob:{plain}secret")
    inits = {"PLAIN": f"\0{user}\0x", "SCRAM-SHA-256": f"n,,n={user},r=abc"}

    def waits(users: UserFile, mechanism: str) -> bool:
        elsewhere = Elsewhere()
        give(server(elsewhere, users), SASL + encode_frame(0, SaslInit(mechanism, inits[mechanism].encode())))
        return bool(elsewhere.work)

    assert [waits(users, "PLAIN") for users in (mixed, stored, plain)] == [True, True, False]
    assert [waits(users, "SCRAM-SHA-256") for users in (mixed, stored, plain)] == [True, False, True]
    for users in (mixed, stored, plain):
        users.prepare()
    assert [waits(users, "SCRAM-SHA-256") for users in (mixed, stored, plain)] == [False, False, False]


def test_a_client_derives_its_keys_elsewhere() -> None:
    there, here = Elsewhere(), Elsewhere()
    theirs = server(there)
    sasl = SaslClient(["SCRAM-SHA-256"], "ann", "secret")
    ours = Connection(ConnectionSettings("c", client=True, sasl=sasl, offload=here.offload), handler(), 0.0)
    for _ in range(8):
        give(theirs, taken(ours))
        while there.work:
            there.finish()
        give(ours, taken(theirs))
        while here.work:
            here.finish()
    assert (theirs.user, ours.remote is not None) == ("ann", True)


def test_a_client_without_room_gives_up_with_the_reason() -> None:
    theirs = server(Elsewhere(), UserFile.parse(make_line("ann", "secret")))
    sasl = SaslClient(["SCRAM-SHA-256"], "ann", "secret")
    settings = ConnectionSettings("c", client=True, sasl=sasl, offload=Elsewhere(room=False).offload)
    ours = Connection(settings, handler(), 0.0)
    for _ in range(3):
        give(theirs, taken(ours))
        give(ours, taken(theirs))
    assert ours.done
    assert ours.error is not None
    assert ours.error.description == "too many peers log in at the same time"
