"""Defaults of settings that configurations of Qpid Dispatch leave out. None: no default."""

from __future__ import annotations

from typing import Any

import pytest

from waymesh_schema.entities import entity_type

AS_IN_DISPATCH: dict[str, dict[str, Any]] = {
    "router": {
        "mode": "standalone",
        "helloIntervalSeconds": 1,
        "helloMaxAgeSeconds": 3,
        "raIntervalSeconds": 30,
        "raIntervalFluxSeconds": 4,
        "remoteLsMaxAgeSeconds": 60,
        "defaultDistribution": "balanced",
        "saslConfigName": "qdrouterd",
        "timestampsInUTC": False,
    },
    "listener": {
        "port": "amqp",
        "role": "normal",
        "cost": 1,
        "saslMechanisms": None,
        "maxFrameSize": 16384,
        "maxSessions": 32768,
        "maxSessionFrames": None,
        "idleTimeoutSeconds": 16,
        "initialHandshakeTimeoutSeconds": 15,
        "linkCapacity": 250,
        "stripAnnotations": "both",
        "authenticatePeer": False,
        "requireEncryption": False,
        "requireSsl": False,
        "http": False,
        "failoverUrls": None,
    },
    "connector": {
        "host": "127.0.0.1",
        "port": "amqp",
        "role": "normal",
        "cost": 1,
        "saslMechanisms": None,
        "maxFrameSize": 16384,
        "maxSessions": 32768,
        "maxSessionFrames": None,
        "idleTimeoutSeconds": 16,
        "linkCapacity": 250,
        "stripAnnotations": "both",
        "verifyHostname": True,
    },
    "address": {"distribution": "balanced", "waypoint": False, "enableFallback": False},
    "linkRoute": {"distribution": "linkBalanced"},
    "autoLink": {"fallback": False},
}


@pytest.mark.parametrize(
    ("entity", "attribute", "default"),
    [(entity, name, value) for entity, values in AS_IN_DISPATCH.items() for name, value in values.items()],
)
def test_the_default_is_that_of_qpid_dispatch(entity: str, attribute: str, default: Any) -> None:
    assert entity_type(entity).attributes[attribute].default == default
