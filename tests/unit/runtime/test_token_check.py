"""Which tokens are accepted, and for which users: valid and invalid claims, with tokens and keys of the library."""

from __future__ import annotations

import base64
import json
import math
import time
from functools import partial
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit import tokens
from tests.kit.tokens import AUDIENCE, ISSUER
from waymesh_amqp.bearer import MAX_TOKEN, Identity
from waymesh_router.runtime.tokens.check import TokenCheck
from waymesh_router.runtime.tokens.keys import KIND_OF_ALGORITHM, Key, KeysError, parse_keys
from waymesh_schema.entities import entity_type
from waymesh_schema.errors import SchemaError
from waymesh_schema.token_rules import SIGNATURE_ALGORITHMS
from waymesh_schema.validate import validate_create

pytestmark = pytest.mark.engine_independent

NOW = time.time()
Issuer = partial(tokens.Issuer, now=lambda: NOW)
FIRST = Issuer()


class Fixed:
    """Keys that do not change."""

    def __init__(self, keys: list[Key]) -> None:
        self.keys = keys

    def find(self, kid: str | None, algorithm: str) -> list[Key]:
        kind = KIND_OF_ALGORITHM[algorithm]
        return [key for key in self.keys if key.kind == kind and (kid is None or key.kid in (None, kid))]


class Checked:
    """A check, and the reasons of its refusals."""

    def __init__(self, content: bytes | None = None, now: float | None = None, **attrs: Any) -> None:
        given = {"name": "t", "audience": AUDIENCE, "issuer": ISSUER, "keysFile": "/keys", **attrs}
        profile = validate_create(entity_type("tokenProfile"), given)
        self.reasons: list[str] = []
        keys = Fixed(parse_keys(FIRST.jwks() if content is None else content))
        self._check = TokenCheck(profile, keys, lambda: NOW if now is None else now, self.reasons.append)

    def __call__(self, token: str) -> Identity | None:
        return self._check.check(token)


def refusal(token: str, **attrs: Any) -> str:
    """Why this token is refused."""
    check = Checked(**attrs)
    assert check(token) is None
    (reason,) = check.reasons
    assert token[:20] not in reason
    return reason


def test_right_token() -> None:
    assert Checked()(FIRST.token(exp=NOW + 600)) == Identity("alice", (), NOW + 630)


@pytest.mark.parametrize("audience", [AUDIENCE, ["other", AUDIENCE]])
def test_one_of_its_audiences_is_ours(audience: Any) -> None:
    assert Checked()(FIRST.token(aud=audience)) is not None


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"aud": "other"}, "another audience"),
        ({"aud": []}, "audience"),
        ({"aud": None}, "no audience"),
        ({"iss": "https://elsewhere.example"}, "another issuer"),
        ({"iss": None}, "no issuer"),
        ({"exp": NOW - 31}, "expired"),
        ({"exp": NOW - 30}, "expired"),
        ({"exp": None}, "no expiry"),
        ({"exp": math.nan}, "not a time"),
        ({"exp": math.inf}, "not a time"),
        ({"exp": True}, "not a time"),
        ({"exp": "9999999999"}, "not a time"),
        ({"exp": 10**400}, "not a time"),
        ({"nbf": NOW + 31}, "not valid yet"),
        ({"iat": NOW + 31}, "not valid yet"),
        ({"nbf": "now"}, "not a time"),
        ({"sub": None}, "not a name"),
        ({"sub": ""}, "not a name"),
        ({"sub": "a" * 256}, "not a name"),
        ({"sub": "alice\n"}, "not a name"),
        ({"sub": ["alice"]}, "not a signed token|not a name"),
    ],
)
def test_claims_that_are_refused(claims: dict[str, Any], reason: str) -> None:
    payload = FIRST.claims(**claims)
    token = jwt.PyJWS().encode(json.dumps(payload).encode(), FIRST.key, "RS256", headers={"kid": FIRST.kid})
    found = refusal(token)
    assert any(part in found for part in reason.split("|")), found


def test_clocks_may_differ_a_little() -> None:
    assert Checked()(FIRST.token(exp=NOW - 29, iat=NOW - 100)) is not None
    assert Checked()(FIRST.token(nbf=NOW + 29)) is not None
    assert "expired" in refusal(FIRST.token(exp=NOW - 1, iat=NOW - 100), clockSkewSeconds=0)


def test_no_expiry_may_be_allowed() -> None:
    identity = Checked(allowNoExpiry=True)(FIRST.token(exp=None))
    assert identity is not None
    assert identity.expires_at == math.inf


def test_signature_of_another_key() -> None:
    assert "signature is wrong" in refusal(Issuer("first").token())


def test_unknown_key_id() -> None:
    assert "no key" in refusal(FIRST.token(headers={"kid": "other"}))


def test_no_key_id_where_a_key_fits() -> None:
    assert Checked()(FIRST.token(headers={})) is not None
    two = Issuer("one")
    two.rotate("two")
    check = Checked(content=two.jwks())
    assert check(two.token(headers={})) is not None
    assert check(FIRST.token(headers={})) is None


def test_pem_keys_fit_any_key_id() -> None:
    assert Checked(content=FIRST.pem())(FIRST.token(headers={"kid": "whatever"})) is not None


def test_elliptic_curve() -> None:
    issuer = Issuer()
    issuer.rotate("curve", curve=True)
    assert Checked(content=issuer.jwks())(issuer.token()) is not None
    assert "not allowed" in refusal(issuer.token(), content=issuer.jwks(), algorithms="RS256")


def test_no_algorithm() -> None:
    assert "not allowed" in refusal(FIRST.forged("none"))


@pytest.mark.parametrize("secret", [FIRST.pem(), FIRST.jwks(), json.dumps(FIRST.jwk()).encode(), b""])
def test_public_key_as_a_shared_secret(secret: bytes) -> None:
    assert "not allowed" in refusal(FIRST.forged("HS256", secret), content=FIRST.pem())


@pytest.mark.parametrize("algorithms", ["none", "HS256", "RS256 HS256", "", "rs256"])
def test_algorithms_that_cannot_be_configured(algorithms: str) -> None:
    with pytest.raises(SchemaError, match=r"algorithms: .*possible are"):
        Checked(algorithms=algorithms)


CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}


@pytest.mark.parametrize("algorithm", SIGNATURE_ALGORITHMS)
def test_each_algorithm_that_can_be_configured(algorithm: str) -> None:
    """With the key as PEM and as JWKS; a token with another algorithm is refused."""
    key: Any = FIRST.key
    if algorithm in CURVES:
        key = ec.generate_private_key(CURVES[algorithm])
    elif algorithm == "EdDSA":
        key = ed25519.Ed25519PrivateKey.generate()
    token = jwt.encode(FIRST.claims(), key, algorithm)
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    jwk = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    for content in (key.public_key().public_bytes(*form), json.dumps({"keys": [jwk]}).encode()):
        assert Checked(content=content, algorithms=algorithm)(token) is not None
        others = " ".join(name for name in SIGNATURE_ALGORITHMS if name != algorithm)
        assert "not allowed" in refusal(token, content=content, algorithms=others)
    assert set(KIND_OF_ALGORITHM) == set(SIGNATURE_ALGORITHMS)


def test_another_kind_of_key() -> None:
    """The header says ES256, but the key with that id is RSA."""
    forger = ec.generate_private_key(ec.SECP256R1())
    token = jwt.encode(FIRST.claims(), forger, "ES256", headers={"kid": FIRST.kid})
    assert "no key" in refusal(token)


def test_key_in_the_header_of_the_token_is_not_used() -> None:
    forger = Issuer("first")
    token = forger.token(headers={"kid": "first", "jwk": forger.jwk(), "jku": "http://127.0.0.1:1/", "x5u": "x"})
    assert "signature is wrong" in refusal(token)


@pytest.mark.parametrize("headers", [{"crit": ["exp"]}, {"crit": []}, {"b64": True}])
def test_critical_extensions(headers: dict[str, Any]) -> None:
    head = {"alg": "RS256", "kid": "first", **headers}
    token = f"{_text(json.dumps(head).encode())}.{FIRST.token().partition('.')[2]}"
    assert refusal(token)


def test_too_long() -> None:
    assert "too long" in refusal(FIRST.token(padding="x" * MAX_TOKEN))


def test_changed_claims() -> None:
    head, _, signature = FIRST.token().split(".")
    other = _text(json.dumps(FIRST.claims(sub="admin")).encode())
    assert "signature is wrong" in refusal(f"{head}.{other}.{signature}")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "head", [b"[" * 10000, b'{"alg":' * 2000, b'{"alg":"RS256","kid":5}', b"\xff", b"{}", b"[]", b"null", b"9" * 9000]
)
def test_hostile_headers(head: bytes) -> None:
    assert refusal(f"{_text(head)}.{_text(b'{}')}.{_text(b'x')}")


@pytest.mark.parametrize("payload", [b"[" * 9000, b"[]", b"null", b"\xff", b'{"aud":"waymesh","iss":' + b"9" * 9000])
def test_signed_rubbish(payload: bytes) -> None:
    assert refusal(jwt.PyJWS().encode(payload, FIRST.key, "RS256", headers={"kid": "first"}))


RIGHT = FIRST.token()


@settings(max_examples=300)
@given(st.data())
def test_any_change_is_refused(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(RIGHT) - 3))  # the last characters hold bits that base64 ignores
    new = data.draw(st.characters(max_codepoint=0x17F))
    token = RIGHT[:at] + new + RIGHT[at + 1 :]
    if token != RIGHT:
        assert refusal(token)


@given(st.text(max_size=200))
def test_any_text_is_refused(text: str) -> None:
    check = Checked()
    assert check(text) is None


# ---- who it is for
def test_user_of_another_claim() -> None:
    identity = Checked(userClaim="email")(FIRST.token(email="alice@example.org"))
    assert identity is not None
    assert identity.user == "alice@example.org"
    assert "not a name" in refusal(FIRST.token(), userClaim="email")


@pytest.mark.parametrize(
    ("groups", "expected"), [(["ops", "dev"], ("ops", "dev")), ("ops", ("ops",)), ([], ()), (None, ())]
)
def test_groups(groups: Any, expected: tuple[str, ...]) -> None:
    identity = Checked(groupsClaim="groups")(FIRST.token(groups=groups))
    assert identity is not None
    assert identity.groups == expected


@pytest.mark.parametrize("groups", [{"ops": True}, ["ops", 5], 5, "", [""], ["a\nb"], [["ops"]]])
def test_groups_that_are_no_names(groups: Any) -> None:
    assert "groups" in refusal(FIRST.token(groups=groups), groupsClaim="groups")


def test_groups_are_not_looked_at_without_a_claim() -> None:
    identity = Checked()(FIRST.token(groups={"ops": True}))
    assert identity is not None
    assert identity.groups == ()


def test_weak_rsa_key() -> None:
    weak = rsa.generate_private_key(65537, 1024)
    issuer = Issuer()
    issuer.key = weak
    with pytest.raises(KeysError, match="no usable public key"):
        parse_keys(issuer.pem())
