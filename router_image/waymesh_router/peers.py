"""How peers may authenticate themselves: the SASL mechanisms of a listener or connector. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_amqp.sasl import MECHANISMS, Authenticator, SaslServer

NOBODY_ADMITTED = (
    "authenticatePeer: yes: every client is refused, since none can authenticate itself: there are no users "
    "(saslConfigDir of the router) and no client certificates (sslProfile with caCertFile) that saslMechanisms allows"
)


def mechanisms_of(attrs: Mapping[str, Any]) -> list[str]:
    """What `saslMechanisms` of a listener or connector says; all unless it says anything."""
    return str(attrs.get("saslMechanisms") or "").split() or list(MECHANISMS)


def server_sasl(
    attrs: Mapping[str, Any], authenticator: Authenticator | None, external_user: str | None
) -> SaslServer:
    """The listener's side of a SASL exchange. With authenticatePeer no client gets in as ANONYMOUS."""
    anonymous = not attrs.get("authenticatePeer")
    mechanisms = [name for name in mechanisms_of(attrs) if anonymous or name != "ANONYMOUS"]
    return SaslServer(mechanisms, authenticator, external_user)


def admits_anybody(
    attrs: Mapping[str, Any], profile: Mapping[str, Any] | None, authenticator: Authenticator | None
) -> bool:
    """Whether there could be a client that a listener takes. `profile`: the listener's sslProfile, if it has one."""
    certified = profile is not None and bool(attrs.get("trustedCertsFile") or profile.get("caCertFile"))
    user = "of a certificate" if certified else None
    return bool(attrs.get("http") or server_sasl(attrs, authenticator, user).offer())


def check_mechanisms(attrs: Mapping[str, Any]) -> None:
    """Raises ValueError for mechanisms that are not known here."""
    unknown = [name for name in mechanisms_of(attrs) if name not in MECHANISMS]
    if unknown:
        raise ValueError(f"saslMechanisms: {' '.join(unknown)}: this router knows {' '.join(MECHANISMS)}")
