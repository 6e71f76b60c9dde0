"""A listener of a Router as a typed value, with its `expose` and `http`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

DEFAULT_PORT = 443
"""The usual TLS port of Gateways, OpenShift and ingress controllers."""


@dataclass(frozen=True, slots=True)
class GatewayRef:
    """A Gateway of Gateway API, or one of its listeners."""

    name: str
    # Empty: that of the Router.
    namespace: str = ""
    # Empty: all that match.
    section: str = ""


@dataclass(frozen=True, slots=True)
class Expose:
    """How a listener is exposed to clients, inside or outside the cluster."""

    # ClusterIP, NodePort, LoadBalancer, Gateway, Route or Ingress
    type: str = "ClusterIP"
    # Empty: none, or for a Route one that OpenShift chooses.
    host: str = ""
    port: int = DEFAULT_PORT
    per_router: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    # 0: one that Kubernetes chooses.
    node_port: int = 0
    # Fields of the Service by name, those that are set.
    service: tuple[tuple[str, Any], ...] = ()
    # Empty: the default of the cluster.
    ingress_class: str = ""
    gateway: GatewayRef | None = None

    @property
    def outside(self) -> bool:
        """Whether it is meant for clients outside of the cluster."""
        return self.type != "ClusterIP"

    def host_of(self, router: str) -> str:
        """The host name of one router, by its id."""
        return f"{router}.{self.host}"


_OF_SERVICE = ("externalTrafficPolicy", "loadBalancerClass", "loadBalancerSourceRanges")


def parse_expose(spec: Mapping[str, Any]) -> Expose:
    """The value of a validated `expose`, without its `allowUnprotected`, which `parse_listener` reads."""
    return Expose(
        type=spec["type"],
        host=spec.get("host", ""),
        port=spec.get("port", DEFAULT_PORT),
        per_router=spec["perRouter"],
        annotations=spec.get("annotations", {}),
        node_port=spec.get("nodePort", 0),
        service=tuple((name, spec[name]) for name in _OF_SERVICE if name in spec),
        ingress_class=spec.get("ingressClassName", ""),
        gateway=_gateway(spec["gatewayRef"]) if "gatewayRef" in spec else None,
    )


def _gateway(spec: Mapping[str, Any]) -> GatewayRef:
    return GatewayRef(spec["name"], spec.get("namespace", ""), spec.get("sectionName", ""))


@dataclass(frozen=True, slots=True)
class Http:
    """Clients connect by AMQP over WebSocket."""

    # Origins of web pages whose scripts may connect, in addition to the listener's origin.
    allowed_origins: tuple[str, ...] = ()
    # Whether /healthz and /readyz are answered.
    healthz: bool = False
    # Whether the console is served.
    console: bool = False


def parse_http(spec: Mapping[str, Any]) -> Http:
    """The value of a validated `http`."""
    return Http(tuple(spec.get("allowedOrigins", ())), spec["healthz"])


def http_attributes(http: Http | None) -> dict[str, Any]:
    """Return the attributes of the router's listener. Metrics stay on their own port, which clients do not need to
    reach."""
    if http is None:
        return dict.fromkeys(("http", "websockets", "metrics", "healthz", "allowedOrigins", "console"))
    return {
        "http": True,
        "websockets": True,
        "metrics": False,
        "healthz": http.healthz,
        "allowedOrigins": " ".join(http.allowed_origins) or None,
        "console": http.console or None,  # routers of older images do not have this attribute
    }


def scheme_of(http: Http | None, *, tls: bool) -> str:
    """The scheme of a listener's URLs."""
    return ("amqp" if http is None else "ws") + ("s" if tls else "")


def app_protocol(http: Http | None, *, tls: bool) -> str:
    """Return the appProtocol of a listener's port, with the Kubernetes names for WebSocket."""
    names = ("amqp", "amqps") if http is None else ("kubernetes.io/ws", "kubernetes.io/wss")
    return names[tls]


LIMITS = (
    "maxConnections", "maxOpeningConnections", "maxSessions", "maxLinks", "maxFrameSize", "maxSessionFrames",
    "linkCapacity", "idleTimeoutSeconds", "initialHandshakeTimeoutSeconds",
)  # fmt: skip
"""Fields of a listener that are attributes of the router's listener, too."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A port for clients."""

    name: str
    port: int
    tls: bool = False
    # none, plain, scram, mtls or token
    auth: str = "none"
    # Name of the Secret with the passwords.
    users: str = ""
    # Address of the broker behind the listener, if there is one.
    route_address: str = ""
    # Offered to clients in addition to the capabilities of the routers and of that broker.
    open_capabilities: tuple[str, ...] = ()
    # Name of the Secret with its certificate; empty: the certificate of the mesh.
    certificate: str = ""
    # Name of the Secret with the authorities of clients' certificates; empty: that of the mesh.
    authorities: str = ""
    # Whether that Secret also has revocation lists.
    revocation: bool = False
    # Each virtual host has a separate address space.
    tenants: bool = False
    # The virtual host of all clients, with or without tenants; empty: each client names it.
    vhost: str = ""
    # Each alias of a virtual host has a separate address space, too.
    alias_spaces: bool = False
    # none or read; of the console read or write
    management: str = "none"
    # Of new connections on each router, as connections/seconds; empty: no limit.
    connection_rate: str = ""
    # Name of the TokenProfile; empty: no tokens.
    token_profile: str = ""
    # Limits of connections: attributes of the router's listener by name, those that are set.
    limits: tuple[tuple[str, int], ...] = ()
    # normal, route-container, inter-router or edge
    role: str = "normal"
    # For brokers: user or container, see Broker; empty: not set.
    durable_names: str = ""
    # Edge routers without a user group are refused.
    strict_edges: bool = False
    # A router's certificate must have one of these names; empty: any certificate of the authorities.
    peer_names: tuple[str, ...] = ()
    # Peers that can reach its port, as NetworkPolicyPeers of the Kubernetes API; empty: all.
    network_peers: tuple[Mapping[str, Any], ...] = ()
    # None: only through the Service of all listeners.
    expose: Expose | None = None
    # None: AMQP over TCP.
    http: Http | None = None
    # Clients get a failover list of the other routers.
    failover: bool = False
    # Attributes of its sslProfile by name, those that are set: protocols, ciphers and uidFormat.
    tls_settings: tuple[tuple[str, str], ...] = ()
    # Without TLS and authentication, it is meant to be so.
    allow_unprotected: bool = False


def parse_listener(item: Mapping[str, Any]) -> Listener:
    """The value of an item of a validated `listeners`."""
    users = item["users"]["secretRef"]["name"] if "users" in item else ""
    route, offered = item.get("routeAddress", ""), tuple(item.get("openCapabilities", ()))
    own, trusted = item.get("certificate"), item.get("clientAuthorities")
    tenancy = item.get("tenancy", {"mode": "", "aliasSpaces": False})
    return Listener(
        item["name"],
        item["port"],
        item["tls"],
        item["auth"],
        users,
        route,
        offered,
        certificate=own["secretRef"]["name"] if own else "",
        authorities=trusted["secretRef"]["name"] if trusted else "",
        revocation=bool(trusted and trusted["revocation"]),
        tenants=bool(tenancy["mode"]),
        alias_spaces=tenancy["aliasSpaces"],
        vhost=tenancy["vhost"] if tenancy["mode"] == "Fixed" else item.get("policyVhost", ""),
        management=item.get("management", "none"),
        connection_rate=item.get("connectionRate", ""),
        token_profile=item.get("tokenProfile", ""),
        limits=tuple((name, item[name]) for name in LIMITS if name in item),
        role=item.get("role", "normal"),
        strict_edges=item.get("strictEdges", False),
        durable_names=item.get("durableNames", ""),
        peer_names=tuple(sorted(item.get("peerNames", ()))),
        network_peers=tuple(item.get("networkPolicyPeers", ())),
        expose=parse_expose(item["expose"]) if "expose" in item else None,
        http=parse_http(item["http"]) if "http" in item else None,
        failover=item.get("failover") == "Auto",
        tls_settings=tls_settings(item.get("tlsProtocols"), item.get("tlsCiphers"), item.get("uidFormat")),
        allow_unprotected=item.get("allowUnprotected", False) or item.get("expose", {}).get("allowUnprotected", False),
    )


CONSOLE_LISTENER = "console"
"""Name of the listener that `spec.console` describes."""


def parse_console(spec: Mapping[str, Any]) -> tuple[Listener, ...]:
    """The listener of a validated `spec.console`, always with TLS and a login; none if it is not enabled."""
    if not spec["enabled"]:
        return ()
    given = {name: value for name, value in spec.items() if name not in ("enabled", "management")}
    listener = parse_listener({"name": CONSOLE_LISTENER, "tls": True, **given})
    return (replace(listener, management=spec["management"], http=Http(console=True)),)


def tls_settings(
    protocols: Iterable[str] | None, ciphers: str | None, uid_format: str | None = None
) -> tuple[tuple[str, str], ...]:
    """Attributes of an sslProfile by name, those that are set."""
    versions = " ".join(sorted(protocols)) if protocols else None
    found = {"protocols": versions, "ciphers": ciphers, "uidFormat": uid_format}
    return tuple((name, value) for name, value in found.items() if value)
