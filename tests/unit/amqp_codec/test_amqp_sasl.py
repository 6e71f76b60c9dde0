"""SASL exchanges of client and server, and of each with a hostile peer. Spec: 5.3"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.amqp_codec.codec_samples import relaxed
from waymesh_amqp import scram
from waymesh_amqp.credentials import Authenticator, Credential
from waymesh_amqp.errors import ILLEGAL_STATE, UNAUTHORIZED_ACCESS, AmqpError
from waymesh_amqp.sasl import MECHANISMS, Challenge, Outcome, SaslClient, SaslServer, SaslStep
from waymesh_amqp.users import UserFile, make_line

pytestmark = pytest.mark.engine_independent

SCRAM = ["SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"]
PASSWORDS = ["PLAIN", *SCRAM]
REFUSED = Outcome(1)

_STORED = [make_line("stored", "pencil", name, salt=b"0123456789abcdef") for name in SCRAM]
USERS = UserFile.parse("\n".join(["plain:{plain}pencil", "jürgen:{plain}schlüssel, = usw.", *_STORED]))


def server(authenticator: Authenticator | None = USERS, external: str | None = "cn") -> SaslServer:
    return SaslServer(MECHANISMS, authenticator, external, _nonces("server"))


def _nonces(name: str) -> Callable[[], str]:
    numbers = iter(range(100))
    return lambda: f"{name}-{next(numbers)}"


def client(mechanism: str, user: str = "plain", password: str = "pencil", external: bool = True) -> SaslClient:
    return SaslClient([mechanism], user, password, external, _nonces("client"))


def run(ours: SaslClient, theirs: SaslServer) -> Outcome:
    """Run an exchange to its outcome, which the client has taken. Raises what the client raises."""
    mechanism, response = ours.select(theirs.offer())
    step = theirs.init(mechanism, response, "host")
    while isinstance(step, Challenge):
        step = theirs.response(ours.challenge(step.data))
    ours.outcome(step.code, step.data)
    return step


@pytest.mark.parametrize("user", ["plain", "stored"])
@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_right_password(mechanism: str, user: str) -> None:
    outcome = run(client(mechanism, user), server())
    assert (outcome.code, outcome.user) == (0, user)


@pytest.mark.parametrize("user", ["plain", "stored", "nobody"])
@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_wrong_password_or_user(mechanism: str, user: str) -> None:
    with pytest.raises(AmqpError, match="refused us") as caught:
        run(client(mechanism, user, "pen"), server())
    assert caught.value.condition == UNAUTHORIZED_ACCESS


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_names_and_passwords_beyond_ascii(mechanism: str) -> None:
    outcome = run(client(mechanism, "jürgen", "schlüssel, = usw."), server())
    assert outcome.user == "jürgen"
    decomposed = "ju\u0308rgen"
    assert run(client(mechanism, decomposed, "schlüssel, = usw."), server()).user == "jürgen"


def test_anonymous() -> None:
    assert run(client("ANONYMOUS"), server()).user == "anonymous"
    assert server().init("ANONYMOUS", None) == Outcome(0, "anonymous")


def test_external() -> None:
    assert run(client("EXTERNAL"), server()).user == "cn"
    assert server().init("EXTERNAL", None) == Outcome(0, "cn")
    assert server().init("EXTERNAL", b"cn") == Outcome(0, "cn")
    assert server().init("EXTERNAL", b"root") == REFUSED
    assert server(external="").init("EXTERNAL", b"") == Outcome(0, "anonymous")


class TestOffer:
    def test_everything_that_can_work(self) -> None:
        assert server().offer() == list(MECHANISMS)

    def test_external_needs_a_user(self) -> None:
        assert "EXTERNAL" not in server(external=None).offer()

    def test_passwords_need_an_authenticator(self) -> None:
        assert server(None).offer() == ["EXTERNAL", "ANONYMOUS"]

    def test_scram_needs_a_user_who_can_succeed(self) -> None:
        users = UserFile.parse(_STORED[1])
        assert SaslServer(PASSWORDS, users).offer() == ["SCRAM-SHA-256", "PLAIN"]

    def test_only_what_is_configured_in_order_of_strength(self) -> None:
        assert SaslServer(["PLAIN", "SCRAM-SHA-1"], USERS).offer() == ["SCRAM-SHA-1", "PLAIN"]

    def test_unknown_mechanisms_are_a_mistake(self) -> None:
        with pytest.raises(ValueError, match="GSSAPI"):
            SaslServer(["GSSAPI"], USERS)
        with pytest.raises(ValueError, match="GSSAPI"):
            SaslClient(["GSSAPI"])


@pytest.mark.parametrize("mechanism", ["GSSAPI", "PLAIN", "EXTERNAL", "plain", ""])
def test_a_mechanism_that_was_not_offered_is_refused(mechanism: str) -> None:
    only_scram = SaslServer(["SCRAM-SHA-1"], USERS, "cn")
    assert only_scram.init(mechanism, b"\0plain\0pencil") == REFUSED


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_an_absent_initial_response_is_asked_for(mechanism: str) -> None:
    """RFC 4422, 5.1"""
    theirs, ours = server(), client(mechanism)
    name, response = ours.select(theirs.offer())
    assert theirs.init(name, None) == Challenge(b"")
    assert response is not None
    step = theirs.response(response)
    while isinstance(step, Challenge):
        step = theirs.response(ours.challenge(step.data))
    assert step.code == 0


def test_only_one_init_and_no_response_without_a_challenge() -> None:
    theirs = server()
    assert theirs.response(b"\0plain\0pencil") == REFUSED
    assert theirs.init("PLAIN", b"\0plain\0pencil").__class__ is Outcome
    assert theirs.init("PLAIN", b"\0plain\0pencil") == REFUSED
    assert theirs.response(b"\0plain\0pencil") == REFUSED


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"plain",
        b"\0plain",
        b"plain\0pencil",
        b"\0plain\0",
        b"\0\0pencil",
        b"\0plain\0pencil\0",
        b"\0plain\0pen\0cil",
        b"other\0plain\0pencil",
        b"\0plain\0pencil\xff",
        b"\0stored\0",
        b"\xff\xfe",
    ],
)
def test_plain_is_read_strictly(message: bytes) -> None:
    """RFC 4616"""
    assert server().init("PLAIN", message) == REFUSED


def test_plain_may_name_oneself_as_the_one_to_act_as() -> None:
    assert server().init("PLAIN", b"plain\0plain\0pencil") == Outcome(0, "plain")


VECTORS = {
    "RFC 5802, 5": (
        "SCRAM-SHA-1",
        "fyko+d2lbbFgONRv9qkxdawL",
        "3rfcNHYJY1ZVvWVs7j",
        "QSXCR+Q6sek8bf92",
        "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
        "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    ),
    "RFC 7677, 3": (
        "SCRAM-SHA-256",
        "rOprNGfwEbeRWgbNEkqO",
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        "W22ZaJ0SNY7soEsUEjb6gQ==",
        "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
}


@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS.keys())
def test_known_exchanges(vector: tuple[str, ...]) -> None:
    mechanism, client_nonce, server_nonce, salt, first, challenge, final, signature = vector
    users = UserFile.parse(make_line("user", "pencil", mechanism, 4096, base64.b64decode(salt)))
    theirs = SaslServer([mechanism], users, nonce=lambda: server_nonce)
    ours = SaslClient([], "user", "pencil", nonce=lambda: client_nonce)
    assert ours.select(theirs.offer()[:1]) == (mechanism, first.encode())
    assert theirs.init(mechanism, first.encode()) == Challenge(challenge.encode())
    assert ours.challenge(challenge.encode()) == final.encode()
    assert theirs.response(final.encode()) == Outcome(0, "user", signature.encode())
    ours.outcome(0, signature.encode())


@pytest.mark.parametrize("mechanism", SCRAM)
class TestNobodyLearnsWhoExists:
    def _challenge(self, users: UserFile, mechanism: str, user: str) -> bytes:
        theirs = SaslServer([mechanism], users, nonce=lambda: "s")
        step = theirs.init(mechanism, f"n,,n={user},r=c".encode())
        assert isinstance(step, Challenge)
        return step.data

    def test_unknown_users_get_a_stable_salt_of_their_own(self, mechanism: str) -> None:
        first = self._challenge(USERS, mechanism, "nobody")
        assert self._challenge(USERS, mechanism, "nobody") == first
        assert self._challenge(USERS, mechanism, "nobody2") != first

    def test_the_salt_comes_from_the_file_not_the_process(self, mechanism: str) -> None:
        text = "a:{plain}b"
        first = self._challenge(UserFile.parse(text), mechanism, "nobody")
        assert self._challenge(UserFile.parse(text), mechanism, "nobody") == first
        assert self._challenge(UserFile.parse(text + "c"), mechanism, "nobody") != first

    def test_the_challenge_has_the_shape_of_a_real_one(self, mechanism: str) -> None:
        line = make_line("real", "pencil", mechanism, 5000, b"a salt of 20 bytes!!")
        users = UserFile.parse(line + "\nplain:{plain}x")
        challenges = [self._challenge(users, mechanism, user) for user in ("real", "plain", "nobody")]
        assert len({len(challenge) for challenge in challenges}) == 1
        assert all(challenge.endswith(b",i=5000") for challenge in challenges)

    @pytest.mark.parametrize("text", ["plain:{plain}pencil", "stored", "both"])
    def test_everybody_costs_the_same_hashing(self, mechanism: str, text: str) -> None:
        lines = {"stored": "\n".join(_STORED), "both": "\n".join(["plain:{plain}pencil", *_STORED])}.get(text, text)
        users = UserFile.parse(lines)
        for check in (lambda user: users.verify_plain(user, "x"), lambda user: users.scram_keys(user, mechanism)):
            costs = set()
            for user in ("plain", "stored", "nobody"):
                with mock.patch.object(scram, "derive", wraps=scram.derive) as derive:
                    check(user)
                costs.add(derive.call_count)
            assert len(costs) == 1


@pytest.mark.parametrize("mechanism", SCRAM)
class TestTamperedScram:
    def _upto_final(self, mechanism: str) -> tuple[SaslClient, SaslServer, bytes]:
        ours, theirs = client(mechanism), server()
        _, response = ours.select([mechanism])
        step = theirs.init(mechanism, response)
        assert isinstance(step, Challenge)
        return ours, theirs, ours.challenge(step.data)

    def test_every_changed_byte_of_the_proof_is_refused(self, mechanism: str) -> None:
        _, _, final = self._upto_final(mechanism)
        for index in range(0, len(final) - 3, 7):  # base64 of these sizes has unused bits before its padding
            _, theirs, final = self._upto_final(mechanism)
            changed = bytearray(final)
            changed[index] ^= 1
            assert theirs.response(bytes(changed)) == REFUSED
            assert theirs.response(final) == REFUSED

    @pytest.mark.parametrize(
        "first",
        [
            b"",
            b"n,,",
            b"n,,n=plain",
            b"n,,r=abc",
            b"n,a=other,n=plain,r=abc",
            b"p=tls-unique,,n=plain,r=abc",
            b"n,,n=pl=ain,r=abc",
            b"n,,m=x,n=plain,r=abc",
            b"n,,n=,r=abc",
            b"n,,n=plain,r=",
            b"n,,n=pl\x07ain,r=abc",
            b"\xff",
        ],
    )
    def test_malformed_client_first(self, mechanism: str, first: bytes) -> None:
        assert server().init(mechanism, first) == REFUSED

    def test_a_server_that_does_not_know_the_password_is_refused(self, mechanism: str) -> None:
        ours, _, _ = self._upto_final(mechanism)
        with pytest.raises(AmqpError, match="signature") as caught:
            ours.outcome(0, b"v=" + base64.b64encode(b"x" * 20))
        assert caught.value.condition == UNAUTHORIZED_ACCESS

    @pytest.mark.parametrize("data", [None, b"", b"e=other-error", b"v=", b"\xff"])
    def test_a_server_that_does_not_sign_is_refused(self, mechanism: str, data: bytes | None) -> None:
        ours, _, _ = self._upto_final(mechanism)
        with pytest.raises(AmqpError):
            ours.outcome(0, data)

    def test_an_outcome_in_place_of_the_challenge_is_refused(self, mechanism: str) -> None:
        ours = client(mechanism)
        ours.select([mechanism])
        with pytest.raises(AmqpError, match="did not sign"):
            ours.outcome(0, b"v=AAAA")

    def test_the_signature_may_come_as_a_challenge(self, mechanism: str) -> None:
        ours, theirs, final = self._upto_final(mechanism)
        step = theirs.response(final)
        assert isinstance(step, Outcome)
        assert step.data is not None
        assert ours.challenge(step.data) == b""
        ours.outcome(0, None)
        with pytest.raises(AmqpError) as caught:
            ours.challenge(b"")
        assert caught.value.condition == ILLEGAL_STATE

    @pytest.mark.parametrize(
        "challenge",
        [
            b"",
            b"\xff",
            b"r=other,s=MDEyMzQ1Njc4OWFiY2RlZg==,i=4096",
            b"r=client-0,s=MDEyMzQ1Njc4OWFiY2RlZg==,i=4096",
            b"r=client-0x,s=MDEyMzQ1Njc4OWFiY2RlZg==,i=1",
            b"r=client-0x,s=MDEyMzQ1Njc4OWFiY2RlZg==,i=9999999",
            b"r=client-0x,s=!,i=4096",
            b"e=unknown-user",
        ],
    )
    def test_malformed_server_first(self, mechanism: str, challenge: bytes) -> None:
        ours = client(mechanism)
        ours.select([mechanism])
        with pytest.raises(AmqpError) as caught:
            ours.challenge(challenge)
        assert caught.value.condition == UNAUTHORIZED_ACCESS


class TestClientsChoice:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"external": True, "username": "u", "password": "p"}, "EXTERNAL"),
            ({"username": "u", "password": "p"}, "SCRAM-SHA-512"),
            ({"mechanisms": ["ANONYMOUS", "SCRAM-SHA-1", "PLAIN"], "username": "u", "password": "p"}, "SCRAM-SHA-1"),
            ({"mechanisms": ["ANONYMOUS", "PLAIN"], "username": "u", "password": "p"}, "PLAIN"),
            ({"username": "u"}, "ANONYMOUS"),
            ({}, "ANONYMOUS"),
        ],
    )
    def test_order(self, options: dict[str, object], expected: str) -> None:
        ours = SaslClient(**{"mechanisms": [], **options})  # type: ignore[arg-type]
        assert ours.select([*reversed(MECHANISMS), "GSSAPI"])[0] == expected

    @pytest.mark.parametrize("offered", [[], ["GSSAPI"], ["ANONYMOUS"], ["EXTERNAL"]])
    def test_nothing_in_common(self, offered: list[str]) -> None:
        with pytest.raises(AmqpError, match="no common SASL mechanism") as caught:
            client("PLAIN", external=False).select(offered)
        assert caught.value.condition == UNAUTHORIZED_ACCESS

    @pytest.mark.parametrize(("code", "name"), [(1, "auth"), (2, "sys"), (3, "sys-perm"), (4, "sys-temp"), (9, "9")])
    def test_refusals_are_named(self, code: int, name: str) -> None:
        ours = client("PLAIN")
        ours.select(["PLAIN"])
        with pytest.raises(AmqpError, match=f"sasl outcome {name}"):
            ours.outcome(code, None)

    def test_challenges_that_make_no_sense(self) -> None:
        for mechanism in ("PLAIN", "ANONYMOUS"):
            ours = client(mechanism)
            ours.select([mechanism])
            with pytest.raises(AmqpError, match="not expected"):
                ours.challenge(b"what?")
        anonymous = client("EXTERNAL")
        anonymous.select(["EXTERNAL"])
        assert anonymous.challenge(b"") == b""

    def test_a_name_that_saslprep_prohibits(self) -> None:
        with pytest.raises(AmqpError):
            client("SCRAM-SHA-1", "a\x07b").select(SCRAM)

    def test_nuls_are_a_mistake(self) -> None:
        with pytest.raises(ValueError, match="NUL"):
            SaslClient([], "a\0b", "c")


class _OneUser(Authenticator):
    """What others must write to have their own store."""

    def lookup(self, user: str) -> Credential | None:
        return Credential("pencil") if user == "me" else None


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_an_authenticator_only_needs_a_lookup(mechanism: str) -> None:
    users = _OneUser(b"secret")
    assert run(client(mechanism, "me"), server(users)).code == 0
    with pytest.raises(AmqpError):
        run(client(mechanism, "you"), server(users))


@relaxed
@given(st.sampled_from([*MECHANISMS, "OTHER"]), st.lists(st.binary(max_size=40), max_size=4))
def test_random_bytes_are_never_let_in(mechanism: str, messages: list[bytes]) -> None:
    theirs = SaslServer([*PASSWORDS, "EXTERNAL"], USERS, "cn")
    steps: Iterator[SaslStep] = iter([theirs.init(mechanism, None), *map(theirs.response, messages)])
    for step in steps:
        assert isinstance(step, Challenge) or step == REFUSED or (mechanism == "EXTERNAL" and step.user == "cn")
