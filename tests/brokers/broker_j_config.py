"""What Broker-J is started with: users, ports, one virtual host. Broker-J manual 7: the attributes."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass
from typing import Any

from tests.brokers.process import PASSWORD, USER
from tests.kit.certificates import KeyPair

ADMIN, ADMIN_PASSWORD = "admin", "admin-pw"
READER, READER_PASSWORD = "reader", "reader-pw"
VIRTUAL_HOST = "default"
ITERATIONS = 4096

Entity = dict[str, Any]


@dataclass(frozen=True)
class Ports:
    """Where Broker-J listens: PLAIN, SCRAM-SHA-256, ANONYMOUS, TLS with client certificates (EXTERNAL), REST."""

    plain: int
    scram: int
    anonymous: int
    tls: int
    http: int


@dataclass(frozen=True)
class Identity:
    """The broker's certificate and the authority's, whose clients it trusts; PEM."""

    server: KeyPair
    authority: str


def broker(host: str, ports: Ports, identity: Identity | None, durable: bool) -> Entity:
    """The broker's initial configuration; without `identity` there is no TLS port."""
    made: Entity = {
        "name": "waymesh-tests",
        "modelVersion": "9.1",
        "authenticationproviders": _providers(),
        "brokerloggers": [_logger()],
        "ports": [
            _amqp_port("amqp", host, ports.plain, "plain"),
            _amqp_port("scram", host, ports.scram, "scram"),
            _amqp_port("anonymous", host, ports.anonymous, "anonymous"),
            {
                "name": "http",
                "type": "HTTP",
                "bindingAddress": host,
                "port": ports.http,
                "authenticationProvider": "plain",
                "protocols": ["HTTP"],
            },
        ],
        "virtualhostnodes": [
            {
                "name": VIRTUAL_HOST,
                "type": "JSON" if durable else "Memory",
                "defaultVirtualHostNode": True,
                "virtualHostInitialConfiguration": "file:virtual_host.json",
            }
        ],
        "plugins": [{"name": "rest", "type": "MANAGEMENT-HTTP", "httpBasicAuthenticationEnabled": True}],
    }
    if identity is not None:
        made |= _tls_stores(identity)
        made["ports"].append(
            {
                **_amqp_port("amqps", host, ports.tls, "certificates"),
                "transports": ["SSL"],
                "keyStore": "server",
                "trustStores": ["clients"],
                "needClientAuth": True,
            }
        )
    return made


def virtual_host(durable: bool) -> Entity:
    """The virtual host's initial configuration: no queues, but clients make `auto.…` queues and `topic.…` exchanges."""
    return {
        "type": "DERBY" if durable else "Memory",
        "housekeepingCheckPeriod": 300,
        "nodeAutoCreationPolicies": [
            _created_on_use("auto[.].*", "queue"),
            _created_on_use("topic[.].*", "exchange"),
        ],
    }


def scram_sha_256(password: str, salt: bytes) -> str:
    """A password as Broker-J stores it: salt, (nothing), stored key, server key, iterations. RFC 5802 section 3."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS)
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    parts = [base64.b64encode(part).decode() for part in (salt, stored_key, server_key)]
    return f"{parts[0]},,{parts[1]},{parts[2]},{ITERATIONS}"


def _providers() -> list[Entity]:
    users = {ADMIN: ADMIN_PASSWORD, USER: PASSWORD, READER: READER_PASSWORD}
    stored = {USER: scram_sha_256(PASSWORD, b"salt of a test")}
    return [
        {"name": "plain", "type": "Plain", "secureOnlyMechanisms": [], "users": _users(users)},
        {"name": "scram", "type": "SCRAM-SHA-256", "secureOnlyMechanisms": [], "users": _users(stored)},
        {"name": "certificates", "type": "External", "useFullDN": False},
        {"name": "anonymous", "type": "Anonymous"},
    ]


def _users(passwords: dict[str, str]) -> list[Entity]:
    return [{"name": name, "type": "managed", "password": password} for name, password in passwords.items()]


def _amqp_port(name: str, host: str, port: int, provider: str) -> Entity:
    return {
        "name": name,
        "type": "AMQP",
        "bindingAddress": host,
        "port": port,
        "authenticationProvider": provider,
        "protocols": ["AMQP_1_0"],
        "virtualhostaliases": [
            {"name": alias, "type": alias} for alias in ("nameAlias", "defaultAlias", "hostnameAlias")
        ],
    }


def _logger() -> Entity:
    levels = {"ROOT": "WARN", "org.apache.qpid.*": "INFO", "qpid.message.*": "INFO"}
    return {
        "name": "console",
        "type": "Console",
        "consoleStreamTarget": "STDOUT",
        "brokerloginclusionrules": [
            {"name": logger, "type": "NameAndLevel", "level": level, "loggerName": logger}
            for logger, level in levels.items()
        ],
    }


def _tls_stores(identity: Identity) -> Entity:
    return {
        "keystores": [
            {
                "name": "server",
                "type": "NonJavaKeyStore",
                "privateKeyUrl": f"file:{identity.server.key}",
                "certificateUrl": f"file:{identity.server.cert}",
            }
        ],
        "truststores": [
            {"name": "clients", "type": "NonJavaTrustStore", "certificatesUrl": f"file:{identity.authority}"}
        ],
    }


def _created_on_use(pattern: str, kind: str) -> Entity:
    return {
        "pattern": pattern,
        "nodeType": kind,
        "attributes": {"type": "topic"} if kind == "exchange" else {},
        "createdOnPublish": True,
        "createdOnConsume": kind == "queue",  # nobody can consume from an exchange itself
    }
