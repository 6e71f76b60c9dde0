"""What clients of a router's listeners log in with: files of users, certificates, bearer tokens. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from waymesh_router.peers import login_warnings, server_sasl

if TYPE_CHECKING:
    from waymesh_amqp.settings import ConnectionSettings
    from waymesh_router.host import Host, Peer


class Logins:
    """The logins at all listeners of a router."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def add_listener(self, attrs: Mapping[str, Any]) -> None:
        """Read what a new listener needs. Raises OSError if it is missing."""
        self._host.tokens.checker(attrs)  # reports an unknown tokenProfile now
        self._host.users.add(attrs)

    def keep_those_of(self, listeners: Collection[Mapping[str, Any]]) -> None:
        """Forget what only listeners other than these needed."""
        self._host.users.keep_those_of(listeners)

    def warnings(self, attrs: Mapping[str, Any], profile: Mapping[str, Any] | None) -> list[str]:
        """What users of a listener should know. `profile`: its sslProfile, if it has one."""
        return login_warnings(attrs, profile, self._host.users.authenticator(attrs))

    def configure(self, settings: ConnectionSettings, attrs: Mapping[str, Any], peer: Peer) -> None:
        """Put the SASL settings of a listener into those of a new connection."""
        users = self._host.users.authenticator(attrs)
        tokens = self._host.tokens.checker(attrs) if peer.tls else None
        settings.sasl = server_sasl(attrs, users, peer.external_user, tokens, secured=peer.tls)
        settings.offload = self._host.offload
        settings.require_sasl = bool(attrs.get("authenticatePeer"))
