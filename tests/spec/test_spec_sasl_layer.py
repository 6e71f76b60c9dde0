"""The SASL layer in front of a connection, from both sides. Spec: 5.3"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.frames import AMQP, SASL, raw_frame
from tests.kit.pump import Hub, Peer, couple
from tests.kit.recorder import Recorder
from waymesh_amqp.performatives import (
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    encode_frame,
)
from waymesh_amqp.sasl import SaslClient, SaslServer, UserFile, make_line
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.states import OPENED, START

USERS = UserFile.parse(make_line("ann", "secret"))
ALL = ("ANONYMOUS", "PLAIN", "EXTERNAL", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512")


def server(chunk: int, mechanisms: tuple[str, ...] = ALL, external: str | None = None, required: bool = True) -> Peer:
    sasl = SaslServer(mechanisms, USERS, external)
    return Hub(Recorder(), chunk).peer(ConnectionSettings("e", sasl=sasl, require_sasl=required))


def sasl(performative: Any) -> bytes:
    return encode_frame(0, performative)


def test_5_3_2_server_answers_with_its_header_and_mechanisms(chunk: int) -> None:
    header, offer = server(chunk).send(SASL)
    assert header == SASL
    assert isinstance(offer, SaslMechanisms)
    assert "ANONYMOUS" in offer.sasl_server_mechanisms
    assert "EXTERNAL" not in offer.sasl_server_mechanisms


def test_5_3_2_whole_dialogue_pipelined(chunk: int) -> None:
    peer = server(chunk)
    answers = peer.send(SASL + sasl(SaslInit("ANONYMOUS")) + AMQP + frames.open_() + frames.begin())
    assert [type(a).__name__ for a in answers] == ["bytes", "SaslMechanisms", "SaslOutcome", "bytes", "Open", "Begin"]
    assert peer.conn.user == "anonymous"
    assert peer.conn.mechanism == "ANONYMOUS"


def test_5_3_2_plain(chunk: int) -> None:
    peer = server(chunk)
    outcome = peer.send(SASL, sasl(SaslInit("PLAIN", b"\0ann\0secret")))[-1]
    assert outcome.code == 0
    peer.open()
    assert peer.conn.user == "ann"


@pytest.mark.parametrize(
    "init",
    [
        SaslInit("PLAIN", b"\0ann\0wrong"),
        SaslInit("PLAIN", b"\0nobody\0secret"),
        SaslInit("PLAIN", b"\xff\xfe"),
        SaslInit("PLAIN", b""),
        SaslInit("EXTERNAL", b""),
        SaslInit("GSSAPI", b""),
        SaslInit("SCRAM-SHA-256", b"garbage"),
        SaslInit("SCRAM-SHA-256", b"n,,n=ann,r=\xff"),
    ],
    ids=["password", "user", "no text", "empty", "no certificate", "unknown", "garbage", "garbled nonce"],
)
def test_5_3_3_6_refusal_says_auth_and_ends_the_transport(chunk: int, init: SaslInit) -> None:
    peer = server(chunk)
    outcome = peer.send(SASL, sasl(init))[-1]
    assert isinstance(outcome, SaslOutcome)
    assert outcome.code == 1
    assert peer.conn.done
    assert peer.conn.error.condition == "amqp:unauthorized-access"
    assert peer.conn.user is None


def test_5_3_3_external(chunk: int) -> None:
    peer = server(chunk, external="cn=x")
    peer.send(SASL, sasl(SaslInit("EXTERNAL", b"")))
    peer.open()
    assert peer.conn.user == "cn=x"


def test_5_3_2_amqp_without_sasl_is_answered_with_the_sasl_header(chunk: int) -> None:
    peer = server(chunk)
    assert peer.send(AMQP) == [SASL]
    assert peer.conn.done


def test_5_3_2_sasl_may_be_skipped_where_it_is_not_required(chunk: int) -> None:
    server(chunk, required=False).open()


def test_5_3_2_amqp_header_before_the_outcome_is_an_error(chunk: int) -> None:
    peer = server(chunk)
    peer.send(SASL + AMQP + frames.open_())
    assert peer.conn.done


def test_5_3_2_no_second_sasl_layer(chunk: int) -> None:
    peer = server(chunk)
    peer.send(SASL + sasl(SaslInit("ANONYMOUS")) + SASL)
    assert peer.conn.done


@pytest.mark.parametrize(
    "frame",
    [
        sasl(SaslResponse(b"early")),
        sasl(SaslOutcome(0)),
        sasl(SaslMechanisms(["PLAIN"])),
        raw_frame(b"\x00\x53\x10\xc0\x03\x01\xa1\x00", kind=1),
    ],
    ids=["response", "outcome", "mechanisms", "open"],
)
def test_5_3_3_unexpected_frame_fails_the_exchange(chunk: int, frame: bytes) -> None:
    peer = server(chunk)
    outcome = peer.send(SASL, frame)[-1]
    assert isinstance(outcome, SaslOutcome)
    assert outcome.code == 1
    assert peer.conn.done


@pytest.mark.parametrize(
    "frame",
    [
        frames.open_(),
        raw_frame(b"\x00\x53\x41\xc0\x01\x00" + b"\x40" * 600, kind=1),
        raw_frame(b"", kind=1),
        b"\x00\x00\x00\x04\x02\x01\x00\x00",
        raw_frame(b"\x00\x53\x41\x45", kind=1),
        raw_frame(b"\x00\x53\x41\xc0\x20\x03\xb3\xff\xff\xff\xffPLAIN", kind=1),
    ],
    ids=["amqp frame", "over 512 octets", "empty", "size 4", "no fields", "length of 4 GiB"],
)
def test_5_3_1_bad_frame_ends_the_transport(chunk: int, frame: bytes) -> None:
    peer = server(chunk)
    peer.send(SASL, frame)
    assert peer.conn.done
    assert peer.conn.user is None
    assert len(peer.handler.named("close")) == 1


def client(chunk: int, **credentials: Any) -> Peer:
    sasl_client = SaslClient(credentials.pop("mechanisms", ALL), **credentials)
    return Hub(Recorder(), chunk).peer(ConnectionSettings("c", client=True, hostname="h", sasl=sasl_client))


def test_5_3_2_client_speaks_first_and_waits(chunk: int) -> None:
    peer = client(chunk, username="ann", password="secret")
    assert peer.take() == [SASL]
    (init,) = peer.send(SASL, sasl(SaslMechanisms(["PLAIN", "ANONYMOUS"])))
    assert (init.mechanism, init.hostname) == ("PLAIN", "h")
    assert [type(a) for a in peer.send(sasl(SaslOutcome(0)))] == [bytes, Open]


def test_5_3_2_client_ends_when_it_is_refused(chunk: int) -> None:
    peer = client(chunk, username="ann", password="secret")
    peer.send(SASL, sasl(SaslMechanisms(["PLAIN"])), sasl(SaslOutcome(1)))
    assert peer.conn.done
    assert peer.conn.error.condition == "amqp:unauthorized-access"


def test_5_3_2_client_without_a_common_mechanism_ends(chunk: int) -> None:
    peer = client(chunk, mechanisms=("PLAIN",), username="ann", password="secret")
    peer.send(SASL, sasl(SaslMechanisms(["GSSAPI"])))
    assert peer.conn.done


def test_5_3_2_client_meets_a_server_without_sasl(chunk: int) -> None:
    peer = client(chunk, username="ann", password="secret")
    peer.send(AMQP)
    assert peer.conn.done
    assert peer.conn.error.condition == "amqp:not-allowed"


@pytest.mark.parametrize("frame", [SaslChallenge(b"x"), SaslOutcome(0), SaslInit("PLAIN")])
def test_5_3_3_client_does_not_take_frames_out_of_order(chunk: int, frame: Any) -> None:
    peer = client(chunk, username="ann", password="secret")
    peer.send(SASL, sasl(frame))
    assert peer.conn.done
    assert peer.conn.state == START


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "ANONYMOUS"])
@pytest.mark.parametrize("password", ["secret", "wrong"])
def test_two_engines_authenticate(chunk: int, mechanism: str, password: str) -> None:
    hub = Hub(Recorder(), chunk)
    offered = SaslServer((mechanism,), USERS)
    one = hub.peer(ConnectionSettings("e", sasl=offered, require_sasl=True)).end
    other = SaslClient((mechanism,), username="ann", password=password)
    two = hub.peer(ConnectionSettings("c", client=True, sasl=other)).end
    couple(one, two)
    hub.turn()
    good = password == "secret" or mechanism == "ANONYMOUS"
    assert (one.conn.state, two.conn.state) == ((OPENED, OPENED) if good else (START, START))
    assert one.conn.user == ({"ANONYMOUS": "anonymous"}.get(mechanism, "ann") if good else None)
