"""Defaults of Qpid Dispatch Router 1.19, and where and why ours differ. docs/migration.md lists the differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from waymesh_schema.entities import entity_type

pytestmark = pytest.mark.engine_independent

CONNECTION: dict[str, Any] = {
    "port": "amqp",
    "role": "normal",
    "cost": 1,
    "maxFrameSize": 16384,
    "maxSessions": 32768,
    "idleTimeoutSeconds": 16,
    "stripAnnotations": "both",
    "linkCapacity": 250,
    "messageLoggingComponents": "none",
    "saslMechanisms": None,
    "sslProfile": None,
    "failoverUrls": None,
}
"""Of listeners and connectors."""
DISPATCH: dict[str, dict[str, Any]] = {
    "router": {
        "mode": "standalone",
        "helloIntervalSeconds": 1,
        "helloMaxAgeSeconds": 3,
        "raIntervalSeconds": 30,
        "raIntervalFluxSeconds": 4,
        "remoteLsMaxAgeSeconds": 60,
        "workerThreads": 4,
        "saslConfigName": "qdrouterd",
        "allowUnsettledMulticast": False,
        "allowResumableLinkRoute": True,
        "defaultDistribution": "balanced",
        "timestampsInUTC": False,
    },
    "listener": CONNECTION
    | {
        "host": "",
        "authenticatePeer": False,
        "requireEncryption": False,
        "requireSsl": False,
        "initialHandshakeTimeoutSeconds": 15,
        "multiTenant": False,
        "http": False,
        "healthz": True,
        "metrics": True,
        "websockets": True,
    },
    "connector": CONNECTION | {"host": "127.0.0.1", "verifyHostname": True, "allowRedirect": True},
    "address": {"distribution": "balanced", "waypoint": False, "enableFallback": False},
    "linkRoute": {"distribution": "linkBalanced"},
    "autoLink": {"fallback": False},
    "policy": {
        "maxConnections": 65535,
        "enableVhostPolicy": False,
        "enableVhostNamePatterns": False,
        "defaultVhost": "$default",
        "maxMessageSize": 0,
    },
    "log": {"enable": "default"},
}
OURS: dict[tuple[str, str], Any] = {
    ("router", "workerThreads"): 1,
    ("router", "allowUnsettledMulticast"): True,
    ("connector", "allowRedirect"): False,
}
"""Defaults that differ."""
EACH = [(entity, attribute) for entity, attributes in DISPATCH.items() for attribute in attributes]


@pytest.mark.parametrize(("entity", "attribute"), EACH)
def test_default(entity: str, attribute: str) -> None:
    wanted = OURS.get((entity, attribute), DISPATCH[entity][attribute])
    assert entity_type(entity).attributes[attribute].default == wanted


@pytest.mark.parametrize(("entity", "attribute"), OURS)
def test_a_difference_is_documented(entity: str, attribute: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "migration.md").read_text(encoding="utf-8")
    value = OURS[entity, attribute]
    written = ("no", "yes")[value] if isinstance(value, bool) else value
    assert f"| `{entity}` | `{attribute}` | {written} |" in page
