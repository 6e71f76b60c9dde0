"""Translates old configurations: the routers of one network become one Router and the resources that refer to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .brokers import broker_of
from .dependents import add_address, add_auto_link, add_link_route, both_ways
from .exchanges import add_exchanges
from .links import link_of
from .listeners import add_listener, port_of
from .names import Names, resource_name
from .networks import position
from .notes import Manifest, Translation
from .policies import add_vhosts, router_policy
from .profiles import read_profile
from .source import Entity, Source
from .tokens import token_profiles

LEVELS = ("trace", "debug", "info", "notice", "warning", "error", "critical", "none")
_NO_COUNTERPART = {
    "authServicePlugin": "no resource has it; see docs/migration.md for what to use instead",
    "tcpListener": "TCP adaptors are not supported",
    "tcpConnector": "TCP adaptors are not supported",
    "httpListener": "HTTP adaptors are not supported",
    "httpConnector": "HTTP adaptors are not supported",
}
_TRANSLATED = frozenset(
    ("router", "listener", "connector", "sslProfile", "log", "policy", "vhost", "router.config.address",
     "router.config.linkRoute", "router.config.autoLink", "router.config.exchange", "router.config.binding",
     "tokenProfile", *_NO_COUNTERPART)
)  # fmt: skip
_ROUTER = ("id", "mode", "saslConfigDir", "saslConfigName", "defaultDistribution", "metadata", "stuckAfterSeconds",
           "maxMemory", "workerThreads")  # fmt: skip
_PLAN = ("size", "role", "resources", "issuer", "unknown")


def translate(sources: Sequence[Source], name: str = "", names: Names | None = None) -> Translation:
    """The manifests of one network; `sources` are its routers. `name`: that of the Router."""
    first, names = sources[0], names or Names()
    chosen = name or first.name or first.router.text("id")
    router = names.choose("Router", resource_name(chosen if chosen and "$" not in chosen else "mesh")[:50])
    found = Translation(router, first.namespace, names)
    for line in (line for source in sources for line in source.skipped):
        found.notes.append(line)
    _router(found, sources)
    for source in sources:
        for entity in source.of("connector"):
            _connector(found, entity, source, sources)
    for ordinal, source in enumerate(sources):
        for entity in source.of("router.config.address"):
            add_address(found, entity)
        for entity in both_ways(source.of("router.config.linkRoute")):
            add_link_route(found, entity, ordinal)
        for entity in source.of("router.config.autoLink"):
            add_auto_link(found, entity, ordinal)
    add_exchanges(found, sources)
    add_vhosts(found, sources)
    return found


def _router(found: Translation, sources: Sequence[Source]) -> None:
    modes = {source.router.text("mode") or "standalone" for source in sources}
    spec: dict[str, Any] = {"size": len(sources) if len(sources) > 1 else sources[0].size}
    listeners: dict[int, dict[str, Any]] = {}
    for source in sources:
        _router_settings(found, source.router, spec)
        for entity in source.of("listener"):
            _listener(found, entity, source, listeners)
        for entity in source.of("sslProfile"):
            read_profile(found, entity)
        _rest(found, source)
        _plan(found, source, spec)
    spec["role"] = "edge" if modes == {"edge"} else "standalone" if modes == {"standalone"} else "interior"
    spec["listeners"] = list(listeners.values())
    if tokens := token_profiles(found, sources):
        spec["tokenProfiles"] = tokens
    logging = _logging(found, [entity for source in sources for entity in source.of("log")])
    if logging:
        spec["logging"] = logging
    policy = router_policy(found, sources)
    if policy:
        spec["policy"] = policy
        places = (entity.place for source in sources for entity in source.of("policy"))
        found.places[f"Router/{found.router} spec.policy"] = next(places, sources[0].place)
    found.add("Router", found.router, spec, sources[0].router.place)
    for source in sources:
        distribution = source.router.text("defaultDistribution")
        if distribution not in ("", "balanced"):
            spec = {"pattern": "#", "distribution": distribution}
            found.add_dependent("Address", "default-distribution", spec, source.router.place)


def _listener(found: Translation, entity: Entity, source: Source, listeners: dict[int, dict[str, Any]]) -> None:
    """Add a listener, and note where the input of the item is."""
    before = len(listeners)
    add_listener(found, entity, source, listeners)
    if len(listeners) > before:
        found.places[f"Router/{found.router} spec.listeners[{before}]"] = entity.place


def _router_settings(found: Translation, router: Entity, spec: dict[str, Any]) -> None:
    if router.text("saslConfigDir"):
        found.note(router, "saslConfigDir: a Cyrus SASL database is not read; users are in the listener's Secret")
    for name, reason in router.wrong:
        if name != "id":
            found.note(router, reason)
    found.not_taken(router, _ROUTER)
    if router.text("stuckAfterSeconds"):
        spec["stuckAfterSeconds"] = router.attributes["stuckAfterSeconds"]
    if router.text("workerThreads"):
        found.note(router, "workerThreads: not taken over, as further threads do TLS alone; see spec.workerThreads")
    memory = router.text("maxMemory")
    if memory.isdigit():
        number = int(memory)
        spec["maxMemory"] = 0 if number == 0 else f"{max(1, number >> 20)}Mi"


def _rest(found: Translation, source: Source) -> None:
    """Note the entities that no resource has."""
    for entity in source.entities:
        if entity.type in _NO_COUNTERPART:
            found.note(entity, _NO_COUNTERPART[entity.type])
        elif entity.type not in _TRANSLATED:
            found.note(entity, "has no counterpart")


def _plan(found: Translation, source: Source, spec: dict[str, Any]) -> None:
    """Take over spec.deploymentPlan of an Interconnect."""
    plan = source.plan
    if plan.get("resources"):
        spec["pod"] = {"resources": plan["resources"]}
    if plan.get("issuer"):
        spec["tls"] = {"issuer": "CertManager", "issuerRef": {"name": plan["issuer"], "kind": "Issuer"}}
    for name in (name for name in plan if name not in _PLAN):
        if plan[name] not in ("", "Any"):
            found.note(source.router, f"deploymentPlan.{name}: has no counterpart; see spec.pod of the Router")
    for name in plan.get("unknown", ()):
        hint = f"; copy its users to the Secret {found.router}-users" if name == "users" else ""
        found.note(source.router, f"spec.{name}: has no counterpart{hint}")


def _logging(found: Translation, entities: Sequence[Entity]) -> dict[str, Any]:
    """spec.logging of the Router: the lowest level of each module."""
    modules: dict[str, str] = {}
    for entity in entities:
        found.read(entity)
        found.not_taken(entity, ("module", "enable", "includeTimestamp", "includeSource"))
        words = [word.strip().removesuffix("+") for word in entity.text("enable").lower().split(",")]
        levels = [word for word in words if word in LEVELS]
        if levels and "module" not in dict(entity.wrong):
            modules[entity.text("module")] = min(levels, key=LEVELS.index)
    level = modules.pop("DEFAULT", "")
    rows = [{"module": module, "level": modules[module]} for module in sorted(modules)]
    return {**({"level": level} if level else {}), **({"modules": rows} if rows else {})}


def _connector(found: Translation, entity: Entity, source: Source, sources: Sequence[Source]) -> None:
    port = port_of(found, entity)
    if port is None:
        return
    found.read(entity)
    if entity.text("role") in ("inter-router", "edge"):
        link_of(found, entity, source, sources, port)
        return
    ordinal, name = position(source, sources), entity.text("name") or f"{entity.text('host') or '127.0.0.1'}-{port}"
    spec, secret = broker_of(found, entity, source, port, name)
    spec["routerRef"] = {"name": found.router}
    known = _same_broker(found, spec)
    if known is not None:
        found.brokers[ordinal, name] = known["metadata"]["name"]
        found.place_also(known["spec"], ordinal, len(sources))
        return
    if len(sources) > 1:
        spec["placement"] = {"routers": "List", "ordinals": [ordinal]}
    found.brokers[ordinal, name] = found.names.choose("Broker", name)
    if secret:
        reference = spec["auth"]["secretRef"]
        reference["name"] = found.names.choose("Secret", reference["name"])
        found.add("Secret", reference["name"], {}, entity.place, stringData=secret)
    found.add("Broker", found.brokers[ordinal, name], spec, entity.place)


def _same_broker(found: Translation, spec: Mapping[str, Any]) -> Manifest | None:
    """The Broker of another router with the same connector."""
    brokers = (manifest for manifest in found.manifests if manifest["kind"] == "Broker")
    return next((one for one in brokers if {**one["spec"], "placement": None} == {**spec, "placement": None}), None)
