"""Translates old configurations: several routers of one mesh become one Router and the resources that refer to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.resources.crds import GROUP
from waymesh_operator.resources.listener import LIMITS
from waymesh_schema.text import one_line

from .brokers import broker_of
from .source import Entity, Names, Source, resource_name

Manifest = dict[str, Any]
VERSION = f"{GROUP}/v1alpha1"
FIRST_PORT, HIGHER = 1024, 10_000
"""The lowest port of a listener, and the number added to a lower one, or one of `PORTS_OF_PODS`."""
HIGHEST = 65535
PORTS_OF_PODS = (9090, 55671, 55672, 55673)
"""The ports that each router needs: those for metrics and probes, other routers, management from outside and inside."""
LEVELS = ("trace", "debug", "info", "notice", "warning", "error", "critical", "none")
_OWN = frozenset(("name", "identity", "type"))
_DONE_BY_MESH = frozenset(("inter-router",))
_EDGE = {
    "listener": "role edge: add a listener with role edge, auth mtls and clientAuthorities to the Router",
    "connector": "role edge: join the Router to its mesh by a RouterLink with role edge",
}
_LISTENER = (
    "host", "port", "role", "sslProfile", "saslMechanisms", "authenticatePeer", "requireSsl", "requireEncryption",
    "routeAddress", "openCapabilities", "connectionRate", "expose", "http",
    "failoverUrls",
)  # fmt: skip
_ADDRESS = (
    "prefix", "pattern", "distribution", "waypoint", "ingressPhase", "egressPhase", "priority", "enableFallback",
    "expired",
)  # fmt: skip
_NO_COUNTERPART = {
    "policy": "is not translated: set spec.policy of the Router",
    "tokenProfile": "is not translated: set spec.tokenProfiles of the Router, and tokenProfile of its listener",
    "vhost": "is not translated: create a VhostPolicy",
    "authServicePlugin": "no resource has it; use users of listeners, or run the file with waymesh-router",
    "router.config.exchange": "no resource has exchanges; create it by management, or run the file with waymesh-router",
    "router.config.binding": "no resource has bindings; create it by management, or run the file with waymesh-router",
    "tcpListener": "TCP adaptors are not supported",
    "tcpConnector": "TCP adaptors are not supported",
    "httpListener": "HTTP adaptors are not supported",
    "httpConnector": "HTTP adaptors are not supported",
}


@dataclass
class Translation:
    """The manifests so far, and notes on what was not taken over unchanged."""

    router: str
    namespace: str = ""
    manifests: list[Manifest] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    names: Names = field(default_factory=Names)
    # Name of each Broker by the router's ordinal and the name of its connector.
    brokers: dict[tuple[int, str], str] = field(default_factory=dict)

    def note(self, entity: Entity, text: str) -> None:
        """Note what has no counterpart, or what to do manually; each text once."""
        line = one_line(f"{entity.place}: {entity.type}: {text}")  # it becomes a comment of the manifests
        if line not in self.notes:
            self.notes.append(line)

    def not_taken(self, entity: Entity, known: Iterable[str]) -> None:
        """Note unknown attributes."""
        taken = {*known, *_OWN}
        for name in (name for name in entity.attributes if name not in taken):
            self.note(entity, f"{name}: has no counterpart")

    def add(self, kind: str, name: str, spec: Mapping[str, Any], **other: Any) -> Manifest:
        """Append a manifest."""
        metadata = {"name": name, **({"namespace": self.namespace} if self.namespace else {})}
        version = "v1" if kind == "Secret" else VERSION
        manifest: Manifest = {"apiVersion": version, "kind": kind, "metadata": metadata, **other}
        if spec:
            manifest["spec"] = dict(spec)
        self.manifests.append(manifest)
        return manifest

    def add_dependent(self, kind: str, name: str, spec: Mapping[str, Any]) -> None:
        """Append a manifest that refers to the Router, unless there is one with the same spec."""
        full = {"routerRef": {"name": self.router}, **spec}
        if not any(item["kind"] == kind and item.get("spec") == full for item in self.manifests):
            self.add(kind, self.names.choose(kind, name), full)


def translate(sources: Sequence[Source], name: str = "") -> Translation:
    """The manifests of one mesh; `sources` are its routers. `name`: that of the Router."""
    first = sources[0]
    chosen = name or first.name or first.router.text("id")
    found = Translation(resource_name(chosen if chosen and "$" not in chosen else "mesh")[:50], first.namespace)
    _router(found, sources)
    for ordinal, source in enumerate(sources):
        for entity in source.of("connector"):
            _connector(found, entity, source, ordinal, len(sources))
    for ordinal, source in enumerate(sources):
        for entity in source.of("router.config.address"):
            _address(found, entity)
        for entity in _both_ways(source.of("router.config.linkRoute")):
            _link_route(found, entity, ordinal)
        for entity in source.of("router.config.autoLink"):
            _auto_link(found, entity, ordinal)
    return found


def _router(found: Translation, sources: Sequence[Source]) -> None:
    modes = {source.router.text("mode") or "standalone" for source in sources}
    spec: dict[str, Any] = {"size": len(sources) if len(sources) > 1 else sources[0].size}
    listeners: dict[int, dict[str, Any]] = {}
    for source in sources:
        router = source.router
        if "edge" in modes and len(modes) > 1 and router.text("mode") == "edge":
            found.note(router, "mode: a Router has one role; create a separate Router for the edge router")
        if router.text("saslConfigDir"):
            found.note(router, "saslConfigDir: a Cyrus SASL database is not read; users are in the listener's Secret")
        found.not_taken(router, ("id", "mode", "saslConfigDir", "saslConfigName", "defaultDistribution", "metadata"))
        for entity in source.of("listener"):
            _listener(found, entity, listeners)
        for entity in source.entities:
            if entity.type in _NO_COUNTERPART:
                found.note(entity, _NO_COUNTERPART[entity.type])
            elif entity.type not in _TRANSLATED:
                found.note(entity, "has no counterpart")
        _plan(found, source, spec)
    spec["role"] = _role(modes, len(sources))
    spec["listeners"] = list(listeners.values())
    logging = _logging(found, [entity for source in sources for entity in source.of("log")])
    if logging:
        spec["logging"] = logging
    found.add("Router", found.router, spec)
    for source in sources:
        distribution = source.router.text("defaultDistribution")
        if distribution not in ("", "balanced"):
            found.add_dependent("Address", "default-distribution", {"pattern": "#", "distribution": distribution})


_TRANSLATED = frozenset(
    ("router", "listener", "connector", "sslProfile", "log", "router.config.address", "router.config.linkRoute",
     "router.config.autoLink", *_NO_COUNTERPART)
)  # fmt: skip


def _plan(found: Translation, source: Source, spec: dict[str, Any]) -> None:
    """Take over spec.deploymentPlan of an Interconnect."""
    plan = source.plan
    if plan.get("resources"):
        spec["pod"] = {"resources": plan["resources"]}
    if plan.get("issuer"):
        spec["tls"] = {"issuer": "CertManager", "issuerRef": {"name": plan["issuer"], "kind": "Issuer"}}
    for name in plan.keys() & {"image", "placement"}:
        if plan[name] not in ("", "Any"):
            found.note(source.router, f"deploymentPlan.{name}: has no counterpart; see spec.pod of the Router")
    for name in plan.get("unknown", ()):
        found.note(source.router, f"spec.{name}: has no counterpart")


def _role(modes: set[str], count: int) -> str:
    """The role of the Router for `count` routers of these modes."""
    if modes == {"edge"}:
        return "edge"
    return "standalone" if modes == {"standalone"} and count == 1 else "interior"


def _has_counterpart(found: Translation, entity: Entity, role: str) -> bool:
    """Whether a listener or connector of this role becomes part of a manifest; notes an edge role."""
    if role == "edge":
        found.note(entity, _EDGE[entity.type])
    return role != "edge" and role not in _DONE_BY_MESH


def _free_port(found: Translation, entity: Entity, port: int, listeners: Mapping[int, Any]) -> int:
    """The port of a listener in a pod: another one if the router cannot bind it or needs it, with a note."""
    if port >= FIRST_PORT and port not in PORTS_OF_PODS:
        return port
    moved = port + HIGHER if port + HIGHER <= HIGHEST else port - HIGHER
    while moved in listeners:
        moved += 1
    needed = port in PORTS_OF_PODS
    reason = f"routers need {port} themselves" if needed else f"routers cannot bind ports below {FIRST_PORT}"
    found.note(entity, f"port: {reason}; {moved} is used")
    return moved


def _listener(found: Translation, entity: Entity, listeners: dict[int, dict[str, Any]]) -> None:
    role = entity.text("role") or "normal"
    if not _has_counterpart(found, entity, role):
        return
    if entity.flag("http"):
        found.note(
            entity,
            "http: every router serves metrics and probes at port 9090, files are not served; for AMQP over "
            "WebSocket add a listener with http to the Router",
        )
        return
    if role == "route-container":
        found.note(entity, "role route-container: give the AutoLinks of its brokers a containerId")
    port = _port(found, entity)
    if port is None or port in listeners:
        return
    port = _free_port(found, entity, port, listeners)
    found.not_taken(entity, (*_LISTENER, *LIMITS))
    item: dict[str, Any] = {"name": _listener_name(entity, listeners), "port": port}
    if role == "route-container":
        item["role"] = role
    item |= _listener_security(found, entity)
    if entity.flag("expose"):
        found.note(entity, "expose: create a Service of type LoadBalancer, or an Ingress, for the port")
    if entity.text("failoverUrls"):
        found.note(entity, "failoverUrls: set failover: Auto of a listener to tell clients the mesh's routers")
    listeners[port] = item | _listener_settings(entity)


def _listener_security(found: Translation, entity: Entity) -> dict[str, Any]:
    """TLS and log-in of a listener, with notes on what to do manually."""
    fields: dict[str, Any] = {}
    if entity.text("sslProfile"):
        fields["tls"] = True
        found.note(entity, "sslProfile: clients get the mesh's certificate; see spec.tls of the Router")
    auth = _auth(entity)
    if auth != "none":
        fields["auth"] = auth
    if auth in ("plain", "scram"):
        fields["users"] = {"secretRef": {"name": f"{found.router}-users"}}
        found.note(entity, f"create the Secret {found.router}-users: a key for each user, the password as its value")
        if auth == "scram" and "SCRAM" not in entity.text("saslMechanisms").upper():
            found.note(entity, "saslMechanisms: clients log in with SCRAM; PLAIN needs TLS")
    return fields


def _listener_settings(entity: Entity) -> dict[str, Any]:
    """Settings of a listener that are taken over unchanged, and its limits."""
    fields: dict[str, Any] = {}
    if entity.text("routeAddress"):
        fields["routeAddress"] = entity.text("routeAddress")
    if entity.text("openCapabilities"):
        fields["openCapabilities"] = entity.text("openCapabilities").split()
    if entity.text("connectionRate"):
        fields["connectionRate"] = entity.text("connectionRate")
    limits = _numbers(entity, *LIMITS)
    fields |= {name: number for name, number in limits.items() if number or name.endswith("Seconds")}  # else 0: default
    return fields


def _listener_name(entity: Entity, listeners: Mapping[int, Mapping[str, Any]]) -> str:
    taken = {item["name"] for item in listeners.values()}
    wanted = resource_name(entity.text("name") or ("amqps" if entity.text("sslProfile") else "amqp"))[:15].strip("-")
    return next(
        name for name in (wanted, *(f"{wanted[:12]}-{number}" for number in range(2, 100))) if name not in taken
    )


def _auth(entity: Entity) -> str:
    """How clients of a listener log in."""
    mechanisms = entity.text("saslMechanisms").upper().split()
    if mechanisms == ["EXTERNAL"]:
        return "mtls"
    if not entity.flag("authenticatePeer"):
        return "none"
    return "plain" if entity.text("sslProfile") and "PLAIN" in mechanisms else "scram"


def _port(found: Translation, entity: Entity) -> int | None:
    known = {"": 5672, "amqp": 5672, "amqps": 5671}
    text = entity.text("port")
    port = known.get(text, int(text) if text.isascii() and text.isdigit() else 0)
    if not 1 <= port <= 65535:
        found.note(entity, f"port: {text!r} is not a port number; the {entity.type} is left out")
        return None
    return port


def _logging(found: Translation, entities: Sequence[Entity]) -> dict[str, Any]:
    """spec.logging of the Router: the lowest level of each module."""
    modules: dict[str, str] = {}
    for entity in entities:
        found.not_taken(entity, ("module", "enable", "includeTimestamp", "includeSource"))
        words = [word.strip().removesuffix("+") for word in entity.text("enable").lower().split(",")]
        levels = [word for word in words if word in LEVELS]
        if levels:
            modules[entity.text("module")] = min(levels, key=LEVELS.index)
    level = modules.pop("DEFAULT", "")
    rows = [{"module": module, "level": modules[module]} for module in sorted(modules)]
    return {**({"level": level} if level else {}), **({"modules": rows} if rows else {})}


def _connector(found: Translation, entity: Entity, source: Source, ordinal: int, routers: int) -> None:
    if not _has_counterpart(found, entity, entity.text("role") or "normal"):
        return
    port = _port(found, entity)
    if port is None:
        return
    name = entity.text("name") or f"{entity.text('host') or '127.0.0.1'}-{port}"
    spec, secret = broker_of(found, entity, source, port, name)
    spec["routerRef"] = {"name": found.router}
    known = _same_broker(found, spec)
    if known is not None:
        found.brokers[ordinal, name] = known["metadata"]["name"]
        _place_also(known["spec"], ordinal, routers)
        return
    if routers > 1:
        spec["placement"] = {"routers": "List", "ordinals": [ordinal]}
    found.brokers[ordinal, name] = found.names.choose("Broker", name)
    if secret:
        reference = spec["auth"]["secretRef"]
        reference["name"] = found.names.choose("Secret", reference["name"])
        found.add("Secret", reference["name"], {}, stringData=secret)
    found.add("Broker", found.brokers[ordinal, name], spec)


def _same_broker(found: Translation, spec: Mapping[str, Any]) -> Manifest | None:
    """The Broker of another router with the same connector."""
    brokers = (manifest for manifest in found.manifests if manifest["kind"] == "Broker")
    return next((one for one in brokers if {**one["spec"], "placement": None} == {**spec, "placement": None}), None)


def _place_also(spec: dict[str, Any], ordinal: int, routers: int) -> None:
    placement = spec.get("placement")
    if placement is not None and ordinal not in placement["ordinals"]:
        placement["ordinals"].append(ordinal)
        if len(placement["ordinals"]) == routers:
            del spec["placement"]


def _address(found: Translation, entity: Entity) -> None:
    found.not_taken(entity, _ADDRESS)
    texts = ("prefix", "pattern", "distribution", "expired")
    spec: dict[str, Any] = {name: entity.text(name) for name in texts if entity.text(name)}
    for name in ("waypoint", "enableFallback"):
        if entity.flag(name):
            spec[name] = True
    spec |= _numbers(entity, "ingressPhase", "egressPhase", "priority")
    found.add_dependent("Address", entity.text("name") or entity.text("prefix") or entity.text("pattern"), spec)


def _both_ways(entities: Iterable[Entity]) -> list[Entity]:
    """Merge link routes that differ only in direction into one for both directions."""
    found: dict[tuple[tuple[str, str], ...], Entity] = {}
    for entity in entities:
        key = tuple(sorted((n, str(v)) for n, v in entity.attributes.items() if n not in ("direction", *_OWN)))
        first = found.get(key)
        if first is not None and first.text("direction") != entity.text("direction"):
            entity = Entity(first.type, {**first.attributes, "direction": "both"}, first.place)
        found[key] = entity
    return list(found.values())


def _link_route(found: Translation, entity: Entity, ordinal: int) -> None:
    names = ("prefix", "pattern", "addExternalPrefix", "delExternalPrefix")
    found.not_taken(entity, (*names, "direction", "containerId", "connection", "distribution"))
    target = _target(found, entity, ordinal)
    if target is not None:
        spec = {name: entity.text(name) for name in names if entity.text(name)}
        spec |= {**target, "direction": entity.text("direction") or "both"}
        found.add_dependent("LinkRoute", entity.text("name") or entity.text("prefix") or entity.text("pattern"), spec)


def _auto_link(found: Translation, entity: Entity, ordinal: int) -> None:
    names = ("address", "direction", "externalAddress", "selector", "distributionMode")
    flags = ("fallback", "noLocal")
    others = ("phase", "containerId", "connection", "capabilities", "linkProperties")
    found.not_taken(entity, (*names, *flags, *others))
    target = _target(found, entity, ordinal)
    if target is not None:
        spec: dict[str, Any] = {name: entity.text(name) for name in names if entity.text(name)}
        spec |= {**target, **_numbers(entity, "phase"), **{name: True for name in flags if entity.flag(name)}}
        if entity.text("capabilities"):
            spec["capabilities"] = entity.text("capabilities").split()
        if entity.attributes.get("linkProperties"):
            spec["linkProperties"] = entity.attributes["linkProperties"]
        name = entity.text("name") or f"{entity.text('address')}-{entity.text('direction')}"
        found.add_dependent("AutoLink", name, spec)


def _target(found: Translation, entity: Entity, ordinal: int) -> dict[str, Any] | None:
    """The Broker or container of a link; None if there is none."""
    connection, container = entity.text("connection"), entity.text("containerId")
    if (ordinal, connection) in found.brokers:
        return {"brokerRef": {"name": found.brokers[ordinal, connection]}}
    if connection:
        found.note(entity, f"connection: there is no connector {connection}; left out, give it a containerId")
        return None
    if container:
        return {"containerId": container}
    found.note(entity, "has neither connection nor containerId; left out")
    return None


def _numbers(entity: Entity, *names: str) -> dict[str, int]:
    return {name: int(entity.text(name)) for name in names if entity.text(name).isdigit()}
