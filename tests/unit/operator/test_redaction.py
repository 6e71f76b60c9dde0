"""What is replaced in data and texts that leave a system, and what stays."""

from __future__ import annotations

import json

import pytest

from waymesh_operator.redaction import HIDDEN, Redaction

pytestmark = pytest.mark.engine_independent


@pytest.mark.parametrize(
    "key",
    ["password", "saslPassword", "pass_phrase", "clientSecret", "token", "bearerToken", "privateKey", "stringData"],
)
def test_values_of_secret_keys_are_hidden(key: str) -> None:
    assert Redaction(b"salt").data({"a": [{key: "planted"}]}) == {"a": [{key: HIDDEN}]}


def test_values_of_environment_variables_with_secret_names_are_hidden() -> None:
    found = Redaction(b"salt").data([{"name": "DB_PASSWORD", "value": "planted"}, {"name": "LEVEL", "value": "info"}])
    assert found == [{"name": "DB_PASSWORD", "value": HIDDEN}, {"name": "LEVEL", "value": "info"}]


def test_references_and_numbers_stay() -> None:
    kept = {"secretRef": {"name": "people"}, "tokenSecretRef": {"name": "x"}, "tokenProfile": "pods", "port": 5672}
    assert Redaction(b"salt").data(kept) == kept


def test_a_user_has_one_replacement_in_data_and_texts() -> None:
    redaction = Redaction(b"salt")
    connections = [{"user": "alice"}, {"user": "bob-2"}, {"user": "anonymous"}]
    found = redaction.data({"connection": connections, "users": "alice, *"})
    alice = found["connection"][0]["user"]
    assert alice.startswith("user-")
    assert found["users"] == f"{alice}, *"
    assert found["connection"][2]["user"] == "anonymous"
    assert redaction.text("[C3] alice logged in; malice did not, bob-2 and bob-22") == (
        f"[C3] {alice} logged in; malice did not, {found['connection'][1]['user']} and bob-22"
    )
    assert Redaction(b"other").data({"user": "alice"})["user"] != alice


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PRIVATE KEY-----\nplanted\n-----END PRIVATE KEY-----",
        "token eyJhbGciOiJIUzI1NiJ9.eyJwbGFudGVkIjoxfQ.planted",
        "amqp://ann:planted@broker:5672",
        "Authorization: Bearer planted-token",
        "password=planted next",
        "password: planted",
        "ann:{SCRAM-SHA-256}planted",
    ],
)
def test_secrets_in_texts_are_hidden(text: str) -> None:
    assert "planted" not in Redaction(b"salt").text(f"before {text} after")
    assert "planted" not in json.dumps(Redaction(b"salt").data({"message": text}))
