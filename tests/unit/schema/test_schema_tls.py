"""Rules of TLS settings that need no files."""

from __future__ import annotations

from typing import Any

import pytest

from waymesh_schema.entities import ENTITY_TYPES
from waymesh_schema.errors import SchemaError
from waymesh_schema.validate import validate_create, validate_update

pytestmark = pytest.mark.engine_independent

PROFILE, LISTENER = ENTITY_TYPES["sslProfile"], ENTITY_TYPES["listener"]


@pytest.mark.parametrize(
    ("attrs", "text"),
    [
        ({"crlFile": "/crl"}, "crlFile: needs caCertFile"),
        ({"peersOnly": True}, "peersOnly: needs caCertFile"),
        ({"ciphers": "TLS_AES_128_GCM_SHA256"}, "ciphers: TLS_AES_128_GCM_SHA256: ciphers of TLS 1.3 cannot be chosen"),
        ({"ciphers": "HIGH:!TLS_AES_128_GCM_SHA256"}, "ciphers of TLS 1.3 cannot be chosen"),
        ({"ciphers": "HIGH", "protocols": "TLSv1.3"}, "ciphers: has no effect with protocols: TLSv1.3"),
        ({"notAfter": 1}, "notAfter: is read-only"),
    ],
)
def test_profiles_that_would_not_act_are_refused(attrs: dict[str, Any], text: str) -> None:
    with pytest.raises(SchemaError, match="sslProfile") as raised:
        validate_create(PROFILE, {"name": "p", **attrs})
    assert text in str(raised.value)


def test_an_update_cannot_take_away_what_another_setting_needs() -> None:
    current = validate_create(PROFILE, {"name": "p", "caCertFile": "/ca", "crlFile": "/crl"})
    with pytest.raises(SchemaError, match="crlFile: needs caCertFile"):
        validate_update(PROFILE, {"caCertFile": None}, current)
    assert validate_update(PROFILE, {"caCertFile": None, "crlFile": None}, current) == {
        "caCertFile": None,
        "crlFile": None,
    }


@pytest.mark.parametrize("host", ["a.example", "*.example", "A-1.example", "localhost"])
def test_host_names_of_profiles(host: str) -> None:
    values = validate_create(LISTENER, {"sslProfile": "p", "sslProfilesByHost": {host: "q"}})
    assert values["sslProfilesByHost"] == {host: "q"}


@pytest.mark.parametrize("host", ["", "*", "*.", "a.*.example", "a*.example", "a..example", "a.example.", "a b", "ä.x"])
def test_other_names_of_hosts_are_refused(host: str) -> None:
    with pytest.raises(SchemaError, match="neither a host name nor"):
        validate_create(LISTENER, {"sslProfile": "p", "sslProfilesByHost": {host: "q"}})


@pytest.mark.parametrize("profile", ["", 1, None, {"a": "b"}])
def test_what_is_no_name_of_a_profile_is_refused(profile: object) -> None:
    with pytest.raises(SchemaError, match=r"a\.example: must be the name of an sslProfile"):
        validate_create(LISTENER, {"sslProfile": "p", "sslProfilesByHost": {"a.example": profile}})


def test_profiles_by_host_need_one_for_other_hosts() -> None:
    with pytest.raises(SchemaError, match="needs an sslProfile for clients that ask for other hosts"):
        validate_create(LISTENER, {"sslProfilesByHost": {"a.example": "q"}})
