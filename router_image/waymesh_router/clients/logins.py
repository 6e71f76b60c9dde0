"""Logins of clients at a router's listeners: users, certificates, bearer tokens, SASL services. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from waymesh_amqp.relayed import RelayedServerExchange
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.types import Symbol
from waymesh_router.clients.service_identity import CAPABILITY
from waymesh_router.connections.transports import PRODUCT, handshake_timeout_s
from waymesh_router.events.event import at
from waymesh_router.peers.mechanisms import login_warnings, relayed_sasl, server_sasl
from waymesh_schema.host_rules import numeric_address

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.relayed import Service
    from waymesh_router.host import Host
    from waymesh_router.peers.peer import Peer

SERVICE_FRAME = 65536
"""Maximum size in bytes of the frames of a service: large, because its open may contain the permissions of a client."""


class Logins:
    """The logins at all listeners of a router. `plugins`: attributes of each authServicePlugin, by name."""

    def __init__(self, host: Host, router_id: str, version: str) -> None:
        self._host = host
        self._router_id = router_id
        self._version = version
        self.plugins: dict[str, Mapping[str, Any]] = {}

    # ---- listeners
    def add_listener(self, attrs: Mapping[str, Any]) -> None:
        """Check tokenProfile and saslPlugin of a new listener, and read its usersFile. Raises OSError or ValueError if
        one of them is missing or unusable."""
        self._host.tokens.checker(attrs, {})  # reports an unknown tokenProfile now
        plugin = attrs.get("saslPlugin")
        if plugin and plugin not in self.plugins:
            raise ValueError(f"listener {attrs['name']}: saslPlugin: there is no authServicePlugin {plugin}")
        self._host.users.add(attrs)

    def keep_those_of(self, listeners: Collection[Mapping[str, Any]]) -> None:
        """Drop user files that none of these listeners uses."""
        self._host.users.keep_those_of(listeners)

    def warnings(self, attrs: Mapping[str, Any], profile: Mapping[str, Any] | None) -> list[str]:
        """Warnings about the logins of a listener. `profile`: its sslProfile, if it has one."""
        return login_warnings(attrs, profile, self._host.users.authenticator(attrs))

    # ---- services
    def add_plugin(self, attrs: Mapping[str, Any]) -> None:
        """Add an authServicePlugin. Raises OSError if it cannot be used."""
        self._host.auth_services.add(attrs)
        self.plugins[attrs["name"]] = attrs
        address = numeric_address(service_host(attrs))
        if not attrs.get("sslProfile") and not (address and address.is_loopback):
            text = "has no sslProfile: passwords of clients can be read on the way to the service"
            self._host.log("AUTHSERVICE", "warning", f"authServicePlugin {attrs['name']}: {text}")

    def remove_plugin(self, name: str) -> None:
        """Remove an authServicePlugin that no listener uses."""
        del self.plugins[name]
        self._host.auth_services.remove(name)

    # ---- connections
    def configure(self, settings: ConnectionSettings, attrs: Mapping[str, Any], peer: Peer) -> None:
        """Set the SASL settings of a new connection of a listener."""
        tokens = self._host.tokens.checker(attrs, at(str(attrs.get("name") or ""), peer.host)) if peer.tls else None
        if attrs.get("saslPlugin"):
            service = self._service(attrs)
            settings.sasl = relayed_sasl(attrs, service, peer.external_user, tokens, secured=peer.tls)
        else:
            users = self._host.users.authenticator(attrs)
            settings.sasl = server_sasl(attrs, users, peer.external_user, tokens, secured=peer.tls)
        settings.offload = self._host.offload
        settings.require_sasl = bool(attrs.get("authenticatePeer"))

    def connection_closed(self, conn: Connection) -> None:
        """A connection has ended, perhaps while it logged in."""
        if isinstance(conn.settings.sasl, RelayedServerExchange):
            conn.settings.sasl.drop()

    def _service(self, attrs: Mapping[str, Any]) -> Service:
        plugin = self.plugins[attrs["saslPlugin"]]
        settings = ConnectionSettings(
            container_id=self._router_id,
            client=True,
            hostname=service_host(plugin),
            max_frame_size=SERVICE_FRAME,
            channel_max=0,
            desired_capabilities=[Symbol(CAPABILITY)],
            properties={Symbol("product"): PRODUCT, Symbol("version"): self._version},
        )
        return self._host.auth_services.relay(plugin["name"], settings, handshake_timeout_s(attrs))


def service_host(plugin: Mapping[str, Any]) -> str:
    """The host of an authServicePlugin."""
    return str(plugin.get("host") or str(plugin.get("authService")).rpartition(":")[0])
