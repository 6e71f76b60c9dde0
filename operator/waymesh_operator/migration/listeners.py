"""Listeners as items of spec.listeners of the Router: port, TLS, log-in, tenants, limits and exposure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from waymesh_operator.resources.listener import LIMITS

from .dependents import numbers
from .names import resource_name
from .notes import Translation
from .profiles import tls_fields, uid_format
from .source import Entity, Source
from .tokens import profile_name

FIRST_PORT, HIGHER = 1024, 10_000
"""The lowest port of a listener, and the number added to a lower one, or one of `PORTS_OF_PODS`."""
HIGHEST = 65535
PORTS_OF_PODS = (9090, 55671, 55672, 55673)
"""The ports that each router needs: those for metrics and probes, other routers, management from outside and inside."""
_KNOWN = (
    "host", "port", "role", "sslProfile", "saslMechanisms", "authenticatePeer", "requireSsl", "requireEncryption",
    "routeAddress", "openCapabilities", "connectionRate", "expose", "http", "failoverUrls", "multiTenant",
    "policyVhost", "aliasSpaces", "management", "durableNames", "strictEdges", "peerNames", "stripAnnotations",
    "tokenProfile",
)  # fmt: skip
_BEARER = ("OAUTHBEARER", "XOAUTH2")
_LOOPBACK = re.compile(r"localhost|127\..*|::1")
_ALL_ADDRESSES = ("", "0.0.0.0", "::")
_HARMLESS = {"routeAddress", "openCapabilities", "durableNames", "linkCapacity", "maxFrameSize", "idleTimeoutSeconds"}
"""Fields of items that deny nothing."""
_DONE_BY_MESH = (
    "role inter-router: the operator connects the routers of a Router; for other routers add a listener with role "
    "inter-router, auth mtls and clientAuthorities"
)
_EDGE = "role edge: needs TLS with clients' certificates: set auth mtls and clientAuthorities; left out"
_HTTP = (
    "http: every router serves metrics and probes at port 9090, files are not served; for AMQP over WebSocket add a "
    "listener with http to the Router"
)


def add_listener(found: Translation, entity: Entity, source: Source, listeners: dict[int, dict[str, Any]]) -> None:
    """Add the item of a listener to those of the Router by port."""
    role = entity.text("role") or "normal"
    if role == "inter-router" or entity.flag("http"):
        found.note(entity, _HTTP if entity.flag("http") else _DONE_BY_MESH)
        return
    profile = source.profile(entity.text("sslProfile"))
    if role == "edge" and not (_auth(entity, role) == "mtls" and _authorities(profile)):
        found.note(entity, _EDGE)
        return
    port = port_of(found, entity)
    if port is None:
        return
    found.read(entity)
    _bound_to(found, entity)
    if port in listeners:
        _again(found, entity, profile, listeners[port])
        return
    taken = {item["port"] for item in listeners.values()}
    item = {"name": _name(entity, listeners.values()), "port": _free_port(found, entity, port, taken)}
    listeners[port] = item | _item(found, entity, profile)


def _item(found: Translation, entity: Entity, profile: Entity | None) -> dict[str, Any]:
    """The item without name and port."""
    role = entity.text("role") or "normal"
    found.not_taken(entity, (*_KNOWN, *LIMITS))
    item: dict[str, Any] = {} if role == "normal" else {"role": role}
    if role == "route-container":
        found.note(entity, "role route-container: give the AutoLinks of its brokers a containerId")
    item |= _security(found, entity, profile, role) | _tenancy(entity, role) | _settings(found, entity, role)
    return item | _expose(found, entity, item)


def _again(found: Translation, entity: Entity, profile: Entity | None, first: Mapping[str, Any]) -> None:
    """Note a listener that differs from another one at the same port: of a further router, or at another address."""
    alone = Translation(found.router, lost=found.lost)  # with the same notes as the first one, which are not repeated
    own = _item(alone, entity, profile)
    others = {name: value for name, value in first.items() if name not in ("name", "port")}
    differ = sorted(name for name in own.keys() | others.keys() if own.get(name) != others.get(name))
    if differ:
        tell = found.note if set(differ) <= _HARMLESS else found.lose
        tell(entity, f"port: the listener {first['name']} has the same port and is used; {', '.join(differ)} differ")


def _bound_to(found: Translation, entity: Entity) -> None:
    host = entity.text("host")
    if _LOOPBACK.fullmatch(host):
        found.lose(entity, f"host: {host}: was for clients on the same machine; routers in pods are for all clients")
    elif host not in _ALL_ADDRESSES:
        found.note(entity, f"host: {host}: routers in pods listen at all addresses of the pod")


def port_of(found: Translation, entity: Entity) -> int | None:
    """The port of a listener or connector; None, with a note, if it has none."""
    known = {"": 5672, "amqp": 5672, "amqps": 5671}
    text = entity.text("port")
    port = known.get(text, int(text) if text.isascii() and text.isdigit() else 0)
    if not 1 <= port <= HIGHEST:
        found.note(entity, f"port: {text!r} is not a port number; the {entity.type} is left out")
        return None
    return port


def _free_port(found: Translation, entity: Entity, port: int, taken: Collection[int]) -> int:
    """The port of a listener in a pod: another one if the router cannot bind it or needs it, with a note."""
    if port >= FIRST_PORT and port not in PORTS_OF_PODS and port not in taken:
        return port
    moved = port + HIGHER if port + HIGHER <= HIGHEST else port - HIGHER
    while moved in taken:
        moved += 1
    reason = f"routers cannot bind ports below {FIRST_PORT}"
    if port >= FIRST_PORT:
        reason = f"routers need {port} themselves" if port in PORTS_OF_PODS else "another listener was moved there"
    found.note(entity, f"port: {reason}; {moved} is used")
    return moved


def _name(entity: Entity, listeners: Iterable[Mapping[str, Any]]) -> str:
    taken = {item["name"] for item in listeners}
    wanted = resource_name(entity.text("name") or ("amqps" if entity.text("sslProfile") else "amqp"))[:15].strip("-")
    return next(
        name for name in (wanted, *(f"{wanted[:12]}-{number}" for number in range(2, 100))) if name not in taken
    )


def _auth(entity: Entity, role: str) -> str:
    """How clients of a listener log in."""
    mechanisms = entity.text("saslMechanisms").upper().split()
    if mechanisms == ["EXTERNAL"] and entity.text("sslProfile"):
        return "mtls"
    if not entity.flag("authenticatePeer"):
        return "none"
    if role == "edge" and entity.text("sslProfile") and (not mechanisms or "EXTERNAL" in mechanisms):
        return "mtls"
    if entity.text("tokenProfile") and mechanisms and not set(mechanisms) - set(_BEARER):
        return "token"
    return "plain" if entity.text("sslProfile") and "PLAIN" in mechanisms else "scram"


def _authorities(profile: Entity | None) -> str:
    """Name of the Secret with the authorities of clients; empty if the profile has none."""
    if profile is None:
        return ""
    return f"{resource_name(profile.text('name'))}-ca" if profile.text("caCertFile") else profile.text("caCert")


def _security(found: Translation, entity: Entity, profile: Entity | None, role: str) -> dict[str, Any]:
    """TLS and log-in of a listener, with notes on what to do manually."""
    fields: dict[str, Any] = {}
    if entity.text("sslProfile"):
        fields["tls"] = True
        fields |= {f"tls{name.capitalize()}": value for name, value in tls_fields(profile).items()}
        found.note(entity, "sslProfile: clients get the mesh's certificate; see spec.tls of the Router")
    elif entity.flag("requireEncryption"):
        found.lose(entity, "requireEncryption: has no counterpart without an sslProfile")
    auth = _auth(entity, role)
    if auth != "none":
        fields["auth"] = auth
        if entity.text("tokenProfile"):
            fields["tokenProfile"] = profile_name(entity)
    if auth == "mtls":
        fields |= uid_format(profile)
    if auth == "mtls" and profile is not None and (secret := _authorities(profile)):
        fields["clientAuthorities"] = {"secretRef": {"name": secret}}
        if profile.text("caCertFile"):
            found.note(profile, f"create the Secret {secret} with ca.crt: the file {profile.text('caCertFile')}")
        if profile.text("crlFile"):
            fields["clientAuthorities"]["revocation"] = True
            found.note(profile, f"add ca.crl to the Secret {secret}: the file {profile.text('crlFile')}")
    if auth in ("plain", "scram"):
        fields["users"] = {"secretRef": {"name": f"{found.router}-users"}}
        found.note(entity, f"create the Secret {found.router}-users: a key for each user, the password as its value")
        if auth == "scram" and "SCRAM" not in entity.text("saslMechanisms").upper():
            found.note(entity, "saslMechanisms: clients log in with SCRAM; PLAIN needs TLS")
    if role == "edge" and entity.text("peerNames"):
        fields["peerNames"] = entity.text("peerNames").split()
    elif entity.text("peerNames"):
        found.lose(entity, "peerNames: has no counterpart for clients")
    return fields


def _tenancy(entity: Entity, role: str) -> dict[str, Any]:
    vhost = entity.text("policyVhost")
    if entity.flag("multiTenant") and role == "normal":
        if vhost:
            return {"tenancy": {"mode": "Fixed", "vhost": vhost}}
        return {"tenancy": {"mode": "ByHostname", **({"aliasSpaces": True} if entity.flag("aliasSpaces") else {})}}
    return {"policyVhost": vhost} if vhost else {}


def _settings(found: Translation, entity: Entity, role: str) -> dict[str, Any]:
    """Settings of a listener that are taken over unchanged, and its limits."""
    fields: dict[str, Any] = {}
    if entity.text("routeAddress"):
        fields["routeAddress"] = entity.text("routeAddress")
    if entity.text("openCapabilities"):
        fields["openCapabilities"] = entity.text("openCapabilities").split()
    for name in ("connectionRate", "durableNames"):
        if entity.text(name):
            fields[name] = entity.text(name)
    if role == "edge" and entity.flag("strictEdges"):
        fields["strictEdges"] = True
    if entity.text("management") in ("none", "read"):
        fields["management"] = entity.text("management")
    elif entity.text("management"):
        found.note(entity, "management: write: the configuration is that of the resources; clients have no right")
    if entity.text("stripAnnotations") not in ("", "both"):
        found.note(entity, "stripAnnotations: annotations of routers are removed in both directions")
    if entity.text("failoverUrls"):
        found.note(entity, "failoverUrls: set failover: Auto of a listener to tell clients the mesh's routers")
    limits = numbers(entity, *LIMITS)
    return fields | {name: number for name, number in limits.items() if number or name.endswith("Seconds")}  # else 0


def _expose(found: Translation, entity: Entity, item: Mapping[str, Any]) -> dict[str, Any]:
    """The exposure of a listener of an Interconnect, which is reachable from outside as before."""
    if not entity.flag("expose"):
        return {}
    expose: dict[str, Any] = {"type": "LoadBalancer"}
    found.note(entity, "expose: a Service of type LoadBalancer; there are other types, such as Route and Ingress")
    if not (item.get("tls") and item.get("auth", "none") != "none"):
        expose["allowUnprotected"] = True
        found.note(entity, "expose: anyone outside may connect or read the traffic, as before (allowUnprotected)")
    return {"expose": expose}
