"""Authentication of peers: the SASL mechanisms of a listener or connector. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from waymesh_amqp.bearer import BEARER_MECHANISMS, Identity
from waymesh_amqp.relayed import RelayedServerExchange, Service
from waymesh_amqp.sasl import MECHANISMS, SERVER_MECHANISMS, Authenticator, SaslServer, TokenChecker

NOBODY_ADMITTED = (
    "authenticatePeer: yes: every client is refused, because none can authenticate itself: there are no users "
    "(usersFile, or saslConfigDir of the router), no client certificates (sslProfile with caCertFile) and no tokens "
    "(tokenProfile) that saslMechanisms allows"
)
_CREDENTIALS = ("saslUsername", "saslPassword")
OWN = ("EXTERNAL", *BEARER_MECHANISMS)
"""Mechanisms that a listener with saslPlugin handles itself if it is configured for them."""
ANYBODY_IS_TRUSTED = (
    "role edge without authenticatePeer: yes: any client can act as an edge router, whose messages and addresses are "
    "trusted"
)
NO_SASL_NEEDED = "saslPlugin: clients without SASL are accepted as anonymous; authenticatePeer: yes refuses them"
PLAIN_NOT_OFFERED = "saslMechanisms: PLAIN is not offered without TLS, unless allowInsecurePlain: yes"
CANNOT_LOG_IN = (
    "saslMechanisms: {}: the connector cannot log in: EXTERNAL needs an sslProfile, PLAIN and SCRAM need saslUsername "
    "and saslPassword"
)


class _NoTokens:
    """Accepts no token; used where only the supported mechanisms matter."""

    def check(self, token: str) -> Identity | None:
        """Always None."""
        return None


def mechanisms_of(attrs: Mapping[str, Any], possible: Sequence[str] = MECHANISMS) -> list[str]:
    """The `saslMechanisms` of a listener or connector; all possible ones if not set."""
    return str(attrs.get("saslMechanisms") or "").split() or list(possible)


def server_sasl(
    attrs: Mapping[str, Any],
    authenticator: Authenticator | None,
    external_user: str | None,
    tokens: TokenChecker | None = None,
    *,
    secured: bool,
) -> SaslServer:
    """The listener's side of a SASL exchange. With authenticatePeer, ANONYMOUS is not accepted.

    `secured`: by TLS; without it PLAIN needs allowInsecurePlain. `tokens`: None without TLS, or without tokenProfile.
    """
    excluded = _excluded_mechanisms(attrs, secured)
    mechanisms = [name for name in mechanisms_of(attrs, SERVER_MECHANISMS) if name not in excluded]
    return SaslServer(mechanisms, authenticator, external_user, tokens=tokens)


def _excluded_mechanisms(attrs: Mapping[str, Any], secured: bool) -> set[str]:
    """The mechanisms that a listener does not offer, although saslMechanisms may name them."""
    excluded = set()
    if attrs.get("authenticatePeer"):
        excluded.add("ANONYMOUS")
    if not (secured or attrs.get("allowInsecurePlain")):
        excluded.add("PLAIN")
    return excluded


def login_warnings(
    attrs: Mapping[str, Any], profile: Mapping[str, Any] | None, authenticator: Authenticator | None
) -> list[str]:
    """Warnings about the logins of a listener. `profile`: the listener's sslProfile, if it has one."""
    warnings = [] if _admits_anybody(attrs, profile, authenticator) else [NOBODY_ADMITTED]
    if attrs.get("role") == "edge" and not attrs.get("authenticatePeer"):
        warnings.append(ANYBODY_IS_TRUSTED)
    if attrs.get("saslPlugin") and not attrs.get("authenticatePeer"):
        warnings.append(NO_SASL_NEEDED)
    named = "PLAIN" in str(attrs.get("saslMechanisms") or "").split()
    if named and profile is None and not attrs.get("allowInsecurePlain"):
        warnings.append(PLAIN_NOT_OFFERED)
    return warnings


def connector_warnings(attrs: Mapping[str, Any]) -> list[str]:
    """Warnings about a connector: attributes that it does not use, or why it cannot log in.

    These are not errors: Qpid Dispatch starts with such a connector, and unused attributes do not weaken security.
    """
    mechanisms = mechanisms_of(attrs)
    given = [name for name in _CREDENTIALS if attrs.get(name)]
    by_password = [name for name in mechanisms if name not in ("EXTERNAL", "ANONYMOUS")]
    usable = {
        "ANONYMOUS": "ANONYMOUS" in mechanisms,
        "EXTERNAL": "EXTERNAL" in mechanisms and attrs.get("sslProfile"),
        "password": by_password and len(given) == len(_CREDENTIALS),
    }
    warnings = []
    if given and not by_password:
        warnings.append(f"not used: {', '.join(given)}: saslMechanisms allows only {' '.join(mechanisms)}")
    elif len(given) == 1:
        (missing,) = set(_CREDENTIALS) - set(given)
        warnings.append(f"not used: {given[0]}: there is no {missing}")
    if not any(usable.values()):
        warnings.append(CANNOT_LOG_IN.format(" ".join(mechanisms)))
    return warnings


def _admits_anybody(
    attrs: Mapping[str, Any], profile: Mapping[str, Any] | None, authenticator: Authenticator | None
) -> bool:
    """Whether any client could authenticate at a listener."""
    without_amqp = attrs.get("http") and attrs.get("websockets") is False
    if without_amqp or attrs.get("saslPlugin"):
        return True
    certified = profile is not None and bool(attrs.get("trustedCertsFile") or profile.get("caCertFile"))
    user = "of a certificate" if certified else None
    tokens = _NoTokens() if attrs.get("tokenProfile") else None
    sasl = server_sasl(attrs, authenticator, user, tokens, secured=profile is not None)
    return bool(sasl.offer())


def relayed_sasl(
    attrs: Mapping[str, Any], service: Service, external_user: str | None, tokens: TokenChecker | None, *, secured: bool
) -> RelayedServerExchange:
    """Like `server_sasl`, for a listener with saslPlugin: the service checks all but certificates and tokens.

    EXTERNAL is never relayed: the service would see the router's certificate for every client.
    """
    local = SaslServer([name for name in mechanisms_of(attrs, OWN) if name in OWN], None, external_user, tokens=tokens)
    refused = {"EXTERNAL", *_excluded_mechanisms(attrs, secured)}
    return RelayedServerExchange(service, local, mechanisms_of(attrs, ()) or None, refused)


def profiles_used(attrs: Mapping[str, Any]) -> list[str]:
    """Names of the sslProfiles of a listener or connector."""
    own = attrs.get("sslProfile")
    return [*([str(own)] if own else []), *map(str, (attrs.get("sslProfilesByHost") or {}).values())]


def check_listener(attrs: Mapping[str, Any], mode: str) -> None:
    """Raises ValueError if mechanisms or role of a listener do not fit a router of that mode."""
    if not attrs.get("saslPlugin"):  # a service may support mechanisms that the router does not
        _check_mechanisms(attrs, SERVER_MECHANISMS)
    _check_role(attrs, mode)


def check_connector(attrs: Mapping[str, Any], mode: str) -> None:
    """Raises ValueError if mechanisms or role of a connector do not fit a router of that mode."""
    _check_mechanisms(attrs, MECHANISMS)
    if attrs["role"] != "edge" or mode == "standalone":
        _check_role(attrs, mode)
    elif mode != "edge":
        raise ValueError(f"{attrs['name']}: role edge of a connector is for edge routers; this one has mode {mode}")


def check_unused(kind: str, name: str, **entities: Iterable[Mapping[str, Any]]) -> None:
    """Raises ValueError if one of the entities, whose attributes are given by type, uses the entity called `name`.

    `kind`: the type of the latter: sslProfile, tokenProfile or authServicePlugin.
    """
    users = [
        f"{entity} {attrs['name']}"
        for entity, those in entities.items()
        for attrs in those
        if name in _profiles(kind, attrs)
    ]
    if users:
        raise ValueError(f"{kind} {name} is in use: {', '.join(users)}")


def _profiles(kind: str, attrs: Mapping[str, Any]) -> list[str]:
    if kind == "sslProfile":
        return profiles_used(attrs)
    return [str(attrs.get("saslPlugin" if kind == "authServicePlugin" else kind) or "")]


def _check_mechanisms(attrs: Mapping[str, Any], possible: Sequence[str]) -> None:
    unknown = [name for name in mechanisms_of(attrs, possible) if name not in possible]
    if unknown:
        raise ValueError(f"saslMechanisms: {' '.join(unknown)}: supported are {' '.join(possible)}")


def _check_role(attrs: Mapping[str, Any], mode: str) -> None:
    """The texts are those of Qpid Dispatch, which scripts look for."""
    role = attrs["role"]
    if role not in ("inter-router", "edge") or mode == "interior":
        return
    if mode == "standalone":
        text = "role='standalone' not allowed to connect to or accept connections from other routers."
        raise ValueError(f"{text} {attrs['name']} has role {role}; set mode: interior")
    text = f"role='{role}' only allowed with router mode='interior'"
    raise ValueError(f"{text}: {attrs['name']}; this one has mode {mode}")
