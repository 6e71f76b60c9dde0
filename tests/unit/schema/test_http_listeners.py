"""Attributes of listeners with `http: yes`."""

from __future__ import annotations

from typing import Any

import pytest

from waymesh_schema.entities import entity_type
from waymesh_schema.errors import SchemaError
from waymesh_schema.validate import validate_create

pytestmark = pytest.mark.engine_independent

HTTP = {"http": True}
PAGES = {"http": True, "websockets": False}
NO_PAGES = {"healthz": False, "metrics": False}
CERTIFIED = {"sslProfile": "p", "requireSsl": True, "saslMechanisms": "EXTERNAL"}


@pytest.mark.parametrize(
    "values",
    [
        HTTP | {"httpRootDir": "/www", "allowedOrigins": "*"},
        HTTP | {"httpRoot": "/www"},
        HTTP | {"console": True},
        HTTP | {"allowedOrigins": "https://a http://b:8080 http://[::1]:80 app://localhost"},
        HTTP | {"maxConnections": 5, "connectionRate": "1/1", "usersFile": "/users"},
        HTTP | {"saslPlugin": "service"},
        HTTP | {"tokenProfile": "t", "sslProfile": "p"},
        HTTP | NO_PAGES | {"authenticatePeer": True},
        HTTP | {"authenticatePeer": True, "httpRootDir": "/www"},
        PAGES | {"authenticatePeer": True},
        HTTP | {"multiTenant": True, "metrics": False},
        HTTP | CERTIFIED | {"authenticatePeer": True},
        PAGES | CERTIFIED | {"authenticatePeer": True},
    ],
)
def test_accepted(values: dict[str, Any]) -> None:
    validate_create(entity_type("listener"), values)


def test_compat_25_a_folder_of_files_implies_http() -> None:
    values = {"httpRoot": "/www", "http": False, "allowedOrigins": "*"}
    assert validate_create(entity_type("listener"), values)["http"] is True


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (HTTP | {"httpRootDir": "www"}, "httpRootDir: must be an absolute path"),
        ({"allowedOrigins": "*"}, "allowedOrigins: needs http: yes and websockets: yes"),
        (PAGES | {"allowedOrigins": "*"}, "allowedOrigins: needs http: yes and websockets: yes"),
        ({"console": True}, "console: needs http: yes and websockets: yes"),
        (PAGES | {"console": True}, "console: needs http: yes and websockets: yes"),
        (HTTP | {"allowedOrigins": "a"}, "allowedOrigins: 'a' is neither"),
        (HTTP | {"allowedOrigins": "null"}, "allowedOrigins: 'null' is neither"),
        (HTTP | {"allowedOrigins": "https://a/b"}, "allowedOrigins: 'https://a/b' is neither"),
        (HTTP | {"allowedOrigins": "https://*,http://b"}, None),
        (PAGES | {"maxConnections": 5}, "maxConnections: is for AMQP"),
        (PAGES | {"connectionRate": "1/1"}, "connectionRate: is for AMQP"),
        (PAGES | {"usersFile": "/users"}, "usersFile: is for AMQP"),
        (PAGES | {"saslPlugin": "service"}, "saslPlugin: is for AMQP"),
        (PAGES | {"tokenProfile": "t", "sslProfile": "p"}, "tokenProfile: is for AMQP"),
        (HTTP | {"multiTenant": True}, "http: needs metrics: no and websockets: yes with multiTenant"),
        (PAGES | NO_PAGES | {"multiTenant": True}, "http: needs metrics: no and websockets: yes with multiTenant"),
    ],
)
def test_refused(values: dict[str, Any], reason: str | None) -> None:
    with pytest.raises(SchemaError, match=reason):
        validate_create(entity_type("listener"), values)
