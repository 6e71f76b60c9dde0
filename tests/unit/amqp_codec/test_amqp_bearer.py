"""SASL OAUTHBEARER (RFC 7628) and XOAUTH2, server side, with good, bad and hostile clients."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_amqp.bearer import BEARER_MECHANISMS, FAILURE, MAX_TOKEN, BearerError, Identity, identify
from waymesh_amqp.sasl import MECHANISMS, SERVER_MECHANISMS, Challenge, Outcome, SaslClient, SaslServer
from waymesh_schema.token_rules import BEARER_MECHANISMS as OF_SCHEMA

pytestmark = pytest.mark.engine_independent

REFUSED = Outcome(1)
ALICE = Outcome(0, "alice", groups=("ops",), expires_at=1000.0)


class Tokens:
    """Accepts `good`, for alice."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def check(self, token: str) -> Identity | None:
        self.seen.append(token)
        return Identity("alice", ("ops",), 1000.0) if token == "good" else None


def server(tokens: Tokens | None = None) -> SaslServer:
    return SaslServer(SERVER_MECHANISMS, None, tokens=tokens or Tokens())


RIGHT = [
    ("OAUTHBEARER", b"n,,\x01auth=Bearer good\x01\x01"),
    ("OAUTHBEARER", b"n,a=alice,\x01host=mesh\x01port=5671\x01auth=bearer  good\x01\x01"),
    ("OAUTHBEARER", b"y,,\x01auth=BEARER good\x01\x01"),
    ("XOAUTH2", b"user=alice\x01auth=Bearer good\x01\x01"),
    ("XOAUTH2", b"user=\x01auth=Bearer good\x01\x01"),
    ("XOAUTH2", b"auth=Bearer good\x01\x01"),
]
WRONG = [
    b"",
    b"\x01\x01",
    b"n,,\x01\x01",
    b"n,,\x01auth=Bearer bad\x01\x01",
    b"n,,\x01auth=Bearer \x01\x01",
    b"n,,\x01auth=Basic good\x01\x01",
    b"n,,\x01auth=Bearer good\x01",
    b"n,,\x01auth=Bearer good\x01auth=Bearer good\x01\x01",
    b"n,,\x01rubbish\x01auth=Bearer good\x01\x01",
    b"n,a=bob,\x01auth=Bearer good\x01\x01",
    b"n,b=alice,\x01auth=Bearer good\x01\x01",
    b"n,a=al=3ice,\x01auth=Bearer good\x01\x01",
    b"p=tls-exporter,,\x01auth=Bearer good\x01\x01",
    b"user=bob\x01auth=Bearer good\x01\x01",
    b"user=alice\x01auth=Bearer bad\x01\x01",
    b"user=alice\x01auth=Bearer g\xc3\xb6od\x01\x01",
    b"\xff\xfe\x01\x01",
    b"n,,\x01auth=Bearer " + b"x" * (MAX_TOKEN + 1) + b"\x01\x01",
    b"x" * 100_000,
]


@pytest.mark.parametrize(("mechanism", "response"), RIGHT)
def test_right_token(mechanism: str, response: bytes) -> None:
    assert server().init(mechanism, response) == ALICE
    asked = server()
    assert asked.init(mechanism, None) == Challenge(b"")
    assert asked.response(response) == ALICE


@pytest.mark.parametrize("response", WRONG)
def test_oauthbearer_tells_an_error_and_fails_after_the_clients_answer(response: bytes) -> None:
    theirs = server()
    assert theirs.init("OAUTHBEARER", response) == Challenge(FAILURE)
    assert theirs.response(b"\x01") == REFUSED
    assert theirs.response(b"n,,\x01auth=Bearer good\x01\x01") == REFUSED


@pytest.mark.parametrize("response", WRONG)
def test_xoauth2_fails_at_once(response: bytes) -> None:
    assert server().init("XOAUTH2", response) == REFUSED


def test_a_good_token_behind_the_error_is_refused() -> None:
    theirs = server()
    assert theirs.init("OAUTHBEARER", b"") == Challenge(FAILURE)
    assert theirs.response(b"n,,\x01auth=Bearer good\x01\x01") == REFUSED


@pytest.mark.parametrize("mechanism", BEARER_MECHANISMS)
def test_tokens_that_are_too_long_are_not_checked(mechanism: str) -> None:
    tokens = Tokens()
    long = b"n,,\x01auth=Bearer " + b"x" * (MAX_TOKEN + 1) + b"\x01\x01"
    assert server(tokens).init(mechanism, long) != ALICE
    assert not tokens.seen


@given(st.sampled_from(BEARER_MECHANISMS), st.binary() | st.text("nyap=,\x01 uthBearergod").map(str.encode))
def test_any_input_is_refused_or_right(mechanism: str, data: bytes) -> None:
    try:
        assert identify(mechanism, data, Tokens()).user == "alice"
    except BearerError:
        return


def test_bearer_mechanisms_are_offered_with_tokens_only() -> None:
    assert server().offer() == [*BEARER_MECHANISMS, "ANONYMOUS"]
    without = SaslServer(SERVER_MECHANISMS, None)
    assert without.offer() == ["ANONYMOUS"]
    assert without.init("XOAUTH2", b"auth=Bearer good\x01\x01") == REFUSED
    assert (without.max_frame, without.hashes("XOAUTH2")) == (512, False)
    assert server().max_frame > MAX_TOKEN
    assert server().hashes("OAUTHBEARER")


def test_the_client_has_no_bearer_mechanism() -> None:
    assert not set(MECHANISMS) & set(BEARER_MECHANISMS)
    with pytest.raises(ValueError, match="unknown SASL mechanism 'XOAUTH2'"):
        SaslClient(["XOAUTH2"], "alice", "good")


def test_schema_and_engine_have_the_same_bearer_mechanisms() -> None:
    assert OF_SCHEMA == BEARER_MECHANISMS
