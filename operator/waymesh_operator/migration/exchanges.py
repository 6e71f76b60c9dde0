"""Exchanges and their bindings as Exchange resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .dependents import numbers
from .notes import Manifest, Translation
from .source import Entity, Source

_TEXTS = ("address", "alternateAddress", "matchMethod")
_PHASES = ("phase", "alternatePhase")
_BINDING = ("bindingKey", "nextHopAddress", "nextHopPhase")


def add_exchanges(found: Translation, sources: Sequence[Source]) -> None:
    """Add an Exchange for each exchange; one for those that several routers have alike."""
    for ordinal, source in enumerate(sources):
        exchanges, bindings = list(source.of("router.config.exchange")), list(source.of("router.config.binding"))
        names = {entity.text("name") for entity in exchanges}
        for binding in bindings:
            found.read(binding)
            found.not_taken(binding, ("exchangeName", *_BINDING))
            if binding.text("exchangeName") not in names:
                found.note(binding, f"exchangeName: there is no exchange {binding.text('exchangeName')}; left out")
        for entity in exchanges:
            found.read(entity)
            found.not_taken(entity, (*_TEXTS, *_PHASES))
            own = [binding for binding in bindings if binding.text("exchangeName") == entity.text("name")]
            placement = {"placement": {"routers": "List", "ordinals": [ordinal]}} if len(sources) > 1 else {}
            spec = {"routerRef": {"name": found.router}, **_fields(entity, own), **placement}
            known = _same(found, spec)
            if known is None:
                _add(found, entity, own, spec)
            else:
                found.place_also(known["spec"], ordinal, len(sources))


def _fields(entity: Entity, bindings: Sequence[Entity]) -> dict[str, Any]:
    spec: dict[str, Any] = {name: entity.text(name) for name in _TEXTS if entity.text(name)}
    spec |= numbers(entity, *_PHASES)
    made = []
    for binding in bindings:
        texts = {name: binding.text(name) for name in ("bindingKey", "nextHopAddress") if binding.text(name)}
        made.append(texts | numbers(binding, "nextHopPhase"))
    return spec | ({"bindings": made} if made else {})


def _add(found: Translation, entity: Entity, bindings: Sequence[Entity], spec: Mapping[str, Any]) -> None:
    name = found.names.choose("Exchange", entity.text("name") or entity.text("address"))
    found.add("Exchange", name, spec, entity.place)
    for index, binding in enumerate(bindings):
        found.places[f"Exchange/{name} spec.bindings[{index}]"] = binding.place


def _same(found: Translation, spec: Mapping[str, Any]) -> Manifest | None:
    """The Exchange of another router that differs in nothing but its routers."""
    made = (manifest for manifest in found.manifests if manifest["kind"] == "Exchange")
    return next((one for one in made if {**one["spec"], "placement": None} == {**spec, "placement": None}), None)
