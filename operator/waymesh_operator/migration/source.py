"""The source of a translation (the entities of a qdrouterd.conf file, or of an Interconnect resource), and names of
resources from names and addresses that Kubernetes does not accept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.errors import ManifestError, Problem, WaymeshError
from waymesh_operator.resources.manifests import Document, parse_text
from waymesh_schema import conf_syntax
from waymesh_schema.config import json_sections
from waymesh_schema.entities import entity_type
from waymesh_schema.errors import ConfigError, SchemaError
from waymesh_schema.errors import Problem as ConfigProblem
from waymesh_schema.former_types import counterpart

INTERCONNECT = "interconnectedcloud.github.io"
"""API group of the Interconnect resource."""
_TYPES = {
    "listeners": ("listener", {}),
    "interRouterListeners": ("listener", {"role": "inter-router"}),
    "edgeListeners": ("listener", {"role": "edge"}),
    "sslProfiles": ("sslProfile", {}),
    "addresses": ("router.config.address", {}),
    "autoLinks": ("router.config.autoLink", {}),
    "linkRoutes": ("router.config.linkRoute", {}),
    "connectors": ("connector", {}),
    "interRouterConnectors": ("connector", {"role": "inter-router"}),
    "edgeConnectors": ("connector", {"role": "edge"}),
}
_RENAMED = {"removeExternalPrefix": "delExternalPrefix"}


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity: its short type name, its attributes by their present names, and its position (`file:line`)."""

    type: str
    attributes: Mapping[str, Any]
    place: str

    def text(self, name: str) -> str:
        """The value of an attribute as text; "" if it is not there."""
        value = self.attributes.get(name)
        if isinstance(value, bool):
            return "yes" if value else "no"
        return "" if value is None else str(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """The value of a boolean attribute."""
        text = self.text(name).lower()
        return text in ("yes", "true", "on", "1") if text else default


@dataclass(frozen=True, slots=True)
class Source:
    """The configuration of one router, or of several equal ones (`size`)."""

    place: str
    entities: Sequence[Entity]
    size: int = 1
    name: str = ""
    namespace: str = ""
    # Fields of spec.deploymentPlan, for an Interconnect.
    plan: Mapping[str, Any] = field(default_factory=dict)

    def of(self, kind: str) -> Iterator[Entity]:
        """The entities of a type."""
        return (entity for entity in self.entities if entity.type == kind)

    @property
    def router(self) -> Entity:
        """The entity `router`, an empty one if there is none."""
        return next(self.of("router"), Entity("router", {}, self.place))


def read_source(text: str, filename: str) -> list[Source]:
    """The routers of a file: *.yaml and *.yml hold Interconnect resources, *.json a list of entities, all others are in
    the format of qdrouterd.conf. Raises WaymeshError."""
    if filename.endswith((".yaml", ".yml")):
        return _interconnects(text, filename)
    problems: list[ConfigProblem] = []
    parse = json_sections if filename.endswith(".json") else conf_syntax.parse
    sections = parse(text, filename, problems)
    if problems:
        raise WaymeshError(str(ConfigError(*problems)))
    return [_source(sections, filename)]


def _source(sections: Sequence[conf_syntax.Section], filename: str) -> Source:
    present = [_present(section, filename) for section in sections]
    entities = [_entity(section.name, section.attributes, f"{filename}:{section.line}") for section in present]
    return Source(filename, entities)


def _present(section: conf_syntax.Section, filename: str) -> conf_syntax.Section:
    """Return the section, converted if Qpid Dispatch 1.0 removed its type."""
    try:
        return counterpart(section)[0]
    except SchemaError as error:
        raise WaymeshError(f"{filename}:{section.line}: {error}") from None


def _entity(name: str, attributes: Mapping[str, Any], place: str) -> Entity:
    """Return an entity with present names; types and attributes unknown to Waymesh keep theirs."""
    try:
        kind = entity_type(name)
    except SchemaError:
        return Entity(name, attributes, place)
    present = {kind.attribute_name(written) or written: value for written, value in attributes.items()}
    return Entity(kind.name, present, place)


def _interconnects(text: str, filename: str) -> list[Source]:
    documents, problems = parse_text(text, filename)
    for document in documents:
        if not _is_interconnect(document.data):
            wanted = f"only resources Interconnect of {INTERCONNECT} can be translated"
            problems.append(Problem(filename, document.line(()), "", "", wanted))
        else:
            problems.extend(_wrong_types(document))
    if not documents and not problems:
        problems.append(Problem(filename, 0, "", "", "holds no resource"))
    if problems:
        raise ManifestError(problems)
    return [_interconnect(document) for document in documents]


def _is_interconnect(data: Any) -> bool:
    if not isinstance(data, dict) or not isinstance(data.get("metadata"), dict):
        return False
    return str(data.get("apiVersion")).partition("/")[0] == INTERCONNECT and data.get("kind") == "Interconnect"


def _wrong_types(document: Document) -> Iterator[Problem]:
    """Yield problems with fields that are not the map, or the list of maps, that they should be."""
    spec = document.data.get("spec") or {}
    fields = spec if isinstance(spec, dict) else {}
    for path, value in ((("spec",), spec), (("spec", "deploymentPlan"), fields.get("deploymentPlan") or {})):
        if not isinstance(value, dict):
            yield Problem(document.file, document.line(path), "", ".".join(path), "must be a map of fields")
    for name in _TYPES:
        value = fields.get(name) or []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            message = "must be a list of maps of fields"
            yield Problem(document.file, document.line(("spec", name)), "", f"spec.{name}", message)


def _interconnect(document: Document) -> Source:
    spec = document.data.get("spec") or {}
    plan = spec.get("deploymentPlan") or {}
    entities = [Entity("router", {"mode": plan.get("role", "interior")}, f"{document.file}:{document.line(('spec',))}")]
    for field_, (kind, extra) in _TYPES.items():
        for index, item in enumerate(spec.get(field_) or ()):
            place = f"{document.file}:{document.line(('spec', field_, index))}"
            attributes = {_RENAMED.get(name, name): value for name, value in item.items()}
            if attributes.pop("routeContainer", False):
                attributes["role"] = "route-container"
            entities.append(_entity(kind, {**attributes, **extra}, place))
    if not spec.get("listeners"):
        entities.append(Entity("listener", {"port": 5672}, f"{document.file}:{document.line(('spec',))}"))
    metadata = document.data["metadata"]
    return Source(
        f"{document.file}:{document.line(())}",
        entities,
        size=plan.get("size") or 1,
        name=str(metadata.get("name", "")),
        namespace=str(metadata.get("namespace", "")),
        plan={**plan, "unknown": sorted(spec.keys() - _TYPES.keys() - {"deploymentPlan", "users"})},
    )


MOST = 60
"""Longer names are cut."""


def resource_name(text: str) -> str:
    """Convert the text to a name: lower-case letters, digits and hyphens, beginning with a letter."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:MOST].strip("-")
    return name if name[:1].isalpha() else f"r-{name}".strip("-")


class Names:
    """Gives each resource of a kind a unique name."""

    def __init__(self) -> None:
        self._taken: set[tuple[str, str]] = set()

    def choose(self, kind: str, text: str) -> str:
        """Return a name made from the text, with a number appended if the kind has that name already."""
        wanted = resource_name(text)
        name, number = wanted, 1
        while (kind, name) in self._taken:
            number += 1
            name = f"{wanted}-{number}"
        self._taken.add((kind, name))
        return name
