"""Attributes of a configuration file that have no effect: in this router, or beside the others of their entity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .model import EntityType

Values = Mapping[str, Any]


def _cost_acts(values: Values) -> bool:
    """Whether the cost has an effect, or is the default."""
    return bool(values["role"] == "inter-router" or values["cost"] == 1)


def _users_act(values: Values) -> bool:
    """Whether clients of a listener may log in with a password."""
    names = _mechanisms(values)
    return not names or any(name == "PLAIN" or name.startswith("SCRAM-") for name in names)


def _certificates_act(values: Values) -> bool:
    """Whether a listener requests certificates of clients."""
    names = _mechanisms(values)
    return "EXTERNAL" in names or bool(values["peerNames"]) or (bool(values["authenticatePeer"]) and not names)


def _mechanisms(values: Values) -> list[str]:
    return str(values["saslMechanisms"] or "").upper().split()


_CONDITIONS: tuple[tuple[str, str, Callable[[Values], bool], str], ...] = (
    ("listener", "cost", _cost_acts, "role: inter-router"),
    ("connector", "cost", _cost_acts, "role: inter-router"),
    ("connector", "verifyHostname", lambda values: bool(values["sslProfile"]), "an sslProfile"),
    ("sslProfile", "privateKeyFile", lambda values: bool(values["certFile"]), "a certFile"),
    ("sslProfile", "password", lambda values: bool(values["certFile"]), "a certFile"),
    ("sslProfile", "passwordFile", lambda values: bool(values["certFile"]), "a certFile"),
    ("tokenProfile", "refreshSeconds", lambda values: bool(values["keysUrl"]), "a keysUrl"),
    ("tokenProfile", "minRefreshSeconds", lambda values: bool(values["keysUrl"]), "a keysUrl"),
    ("listener", "usersFile", _users_act, "PLAIN or SCRAM among saslMechanisms"),
    ("listener", "trustedCertsFile", _certificates_act, "EXTERNAL, peerNames or authenticatePeer"),
    ("listener", "healthz", lambda values: bool(values["http"]), "http: yes"),
    ("listener", "metrics", lambda values: bool(values["http"]), "http: yes"),
)
"""Entity, attribute, whether it has an effect, what it needs."""


def unused(entity: EntityType, written: Mapping[str, Any], values: Values) -> list[str]:
    """A text for each attribute that is written and has no effect. `values`: all attributes of the entity, checked.

    These are warnings: Qpid Dispatch starts with such a configuration, too.
    """
    given = {entity.attribute_name(str(name)): value for name, value in written.items()}
    ignored = [
        f"{entity.name} {attribute.name}: has no effect: {attribute.without_effect}"
        for attribute in entity.attributes.values()
        if attribute.without_effect and str(given.get(attribute.name, "")) not in ("", "None", str(attribute.default))
    ]
    return ignored + [
        f"{name} {attribute}: has no effect without {needed}"
        for name, attribute, acts, needed in _CONDITIONS
        if name == entity.name and attribute in given and not acts(values)
    ]
