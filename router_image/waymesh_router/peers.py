"""Authentication of peers: the SASL mechanisms of a listener or connector. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from waymesh_amqp.sasl import MECHANISMS, Authenticator, SaslServer

NOBODY_ADMITTED = (
    "authenticatePeer: yes: every client is refused, since none can authenticate itself: there are no users "
    "(saslConfigDir of the router) and no client certificates (sslProfile with caCertFile) that saslMechanisms allows"
)


def mechanisms_of(attrs: Mapping[str, Any]) -> list[str]:
    """The `saslMechanisms` of a listener or connector; all if not set."""
    return str(attrs.get("saslMechanisms") or "").split() or list(MECHANISMS)


def server_sasl(
    attrs: Mapping[str, Any], authenticator: Authenticator | None, external_user: str | None
) -> SaslServer:
    """The listener's side of a SASL exchange. With authenticatePeer, ANONYMOUS is not accepted."""
    anonymous = not attrs.get("authenticatePeer")
    mechanisms = [name for name in mechanisms_of(attrs) if anonymous or name != "ANONYMOUS"]
    return SaslServer(mechanisms, authenticator, external_user)


def admits_anybody(
    attrs: Mapping[str, Any], profile: Mapping[str, Any] | None, authenticator: Authenticator | None
) -> bool:
    """Whether any client could authenticate at a listener. `profile`: the listener's sslProfile, if it has one."""
    certified = profile is not None and bool(attrs.get("trustedCertsFile") or profile.get("caCertFile"))
    user = "of a certificate" if certified else None
    return bool(attrs.get("http") or server_sasl(attrs, authenticator, user).offer())


def profiles_used(attrs: Mapping[str, Any]) -> list[str]:
    """Names of the sslProfiles of a listener or connector."""
    own = attrs.get("sslProfile")
    return [*([str(own)] if own else []), *map(str, (attrs.get("sslProfilesByHost") or {}).values())]


def check_unused(
    profile: str, listeners: Iterable[Mapping[str, Any]], connectors: Iterable[Mapping[str, Any]]
) -> None:
    """Raises ValueError if a listener or connector, given by its attributes, uses the sslProfile."""
    users = [f"listener {attrs['name']}" for attrs in listeners if profile in profiles_used(attrs)]
    users += [f"connector {attrs['name']}" for attrs in connectors if profile in profiles_used(attrs)]
    if users:
        raise ValueError(f"sslProfile {profile} is in use: {', '.join(users)}")


def check_mechanisms(attrs: Mapping[str, Any]) -> None:
    """Raises ValueError for unknown mechanisms."""
    unknown = [name for name in mechanisms_of(attrs) if name not in MECHANISMS]
    if unknown:
        raise ValueError(f"saslMechanisms: {' '.join(unknown)}: supported are {' '.join(MECHANISMS)}")


def check_role(attrs: Mapping[str, Any], mode: str) -> None:
    """Raises ValueError if the role of a listener or connector does not fit the mode of the router."""
    if attrs["role"] == "inter-router" and mode == "standalone":
        raise ValueError(f"{attrs['name']}: a standalone router takes no role inter-router; set mode: interior")
