"""Bearer tokens in the SASL layer: frames longer than 512 octets, the identity of the connection, its end. Spec: 5.3"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.kit import frames
from tests.kit.frames import AMQP, SASL
from tests.kit.pump import Hub, Peer
from tests.kit.recorder import Recorder
from waymesh_amqp.bearer import FAILURE, MAX_FRAME, MAX_TOKEN, Identity
from waymesh_amqp.connection import Connection
from waymesh_amqp.performatives import Close, SaslChallenge, SaslInit, SaslMechanisms, SaslResponse, encode_frame
from waymesh_amqp.sasl import SERVER_MECHANISMS, SaslServer
from waymesh_amqp.settings import ConnectionSettings
from waymesh_router.clients.login_expiry import LoginExpiry

RIGHT = "a" * MAX_TOKEN


class Tokens:
    """Accepts one, the longest that is possible."""

    def check(self, token: str) -> Identity | None:
        return Identity("alice", ("ops", "dev"), 1000.0) if token == RIGHT else None


class Known:
    """A connection with what the router knows of it besides."""

    def __init__(self, conn: Connection) -> None:
        self.expires_at, self.close, self.origin = conn.expires_at, conn.close, "L"
        self.peer = SimpleNamespace(certificate=None)


def server(chunk: int, tokens: Tokens | None) -> Peer:
    sasl = SaslServer(SERVER_MECHANISMS, None, tokens=tokens)
    return Hub(Recorder(), chunk).peer(ConnectionSettings("e", sasl=sasl, require_sasl=True))


def init(mechanism: str, token: str) -> bytes:
    head = b"n,," if mechanism == "OAUTHBEARER" else b"user=alice"
    return encode_frame(0, SaslInit(mechanism, head + f"\x01auth=Bearer {token}\x01\x01".encode()))


@pytest.mark.parametrize("mechanism", ["OAUTHBEARER", "XOAUTH2"])
def test_identity_of_the_token(chunk: int, mechanism: str) -> None:
    peer = server(chunk, Tokens())
    answers = peer.send(SASL + init(mechanism, RIGHT) + AMQP + frames.open_())
    assert [type(answer).__name__ for answer in answers] == ["bytes", "SaslMechanisms", "SaslOutcome", "bytes", "Open"]
    conn = peer.conn
    assert (conn.user, conn.mechanism, conn.groups, conn.expires_at) == ("alice", mechanism, ("ops", "dev"), 1000.0)


def test_anonymous_has_no_groups_and_no_expiry(chunk: int) -> None:
    peer = server(chunk, Tokens())
    peer.send(SASL + encode_frame(0, SaslInit("ANONYMOUS")) + AMQP + frames.open_())
    assert (peer.conn.groups, peer.conn.expires_at) == ((), math.inf)


def test_wrong_token(chunk: int) -> None:
    peer = server(chunk, Tokens())
    challenge = peer.send(SASL, init("OAUTHBEARER", "wrong"))[-1]
    assert isinstance(challenge, SaslChallenge)
    assert challenge.challenge == FAILURE
    outcome = peer.send(encode_frame(0, SaslResponse(b"\x01")))[-1]
    assert outcome.code == 1
    assert peer.conn.done
    assert (peer.conn.user, peer.conn.groups) == (None, ())


def test_5_3_1_frames_are_of_512_octets_where_no_tokens_are_accepted(chunk: int) -> None:
    peer = server(chunk, None)
    _, offer = peer.send(SASL)
    assert isinstance(offer, SaslMechanisms)
    assert offer.sasl_server_mechanisms == ["ANONYMOUS"]
    assert peer.send(init("XOAUTH2", "a" * 512)) == []
    assert peer.conn.done


def test_frames_longer_than_any_token_end_the_connection(chunk: int) -> None:
    peer = server(chunk, Tokens())
    assert peer.send(SASL)[0] == SASL
    assert peer.send(init("XOAUTH2", "a" * MAX_FRAME)) == []
    assert peer.conn.done


def test_close_at_the_expiry(chunk: int) -> None:
    peer = server(chunk, Tokens())
    peer.send(SASL + init("XOAUTH2", RIGHT) + AMQP + frames.open_())
    now = [999.0]
    expiry = LoginExpiry(cast(Any, SimpleNamespace(tokens=SimpleNamespace(now=lambda: now[0]))), {})
    expiry.opened(cast(Any, Known(peer.conn)))
    expiry.tick(0.0)
    assert not peer.conn.over
    now[0] = 1000.0
    expiry.tick(0.0)
    (close,) = peer.send(b"")
    assert isinstance(close, Close)
    assert close.error is not None
    assert (close.error.condition, close.error.description) == ("amqp:unauthorized-access", "token expired")
    assert peer.conn.over
