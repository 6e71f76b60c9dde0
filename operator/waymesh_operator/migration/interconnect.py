"""Interconnect resources of the operator of Qpid Dispatch, among other Kubernetes resources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from waymesh_operator.errors import ManifestError, Problem
from waymesh_operator.resources.manifests import Document, parse_text

from .source import Entity, Source, entity_of

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
_OTHERS = ("expose", "credentials", "caCert", "mutualAuth", "generateCredentials", "generateCaCert")
"""Fields that are no attributes of routers."""


def interconnects(text: str, filename: str) -> list[Source]:
    """The Interconnects of a file; each has a list of the other resources there. Raises WaymeshError."""
    documents, problems = parse_text(text, filename)
    wanted = [document for document in documents if _is_interconnect(document.data)]
    for document in wanted:
        problems.extend(_wrong_types(document))
    skipped = tuple(_skipped(document) for document in documents if document not in wanted)
    if not wanted and not problems:
        line = documents[0].line(()) if documents else 0
        only = f"only resources Interconnect of {INTERCONNECT} can be translated"
        problems.append(Problem(filename, line, "", "", only if documents else "holds no resource"))
    if problems:
        raise ManifestError(problems)
    first, *others = wanted
    return [_interconnect(first, skipped), *(_interconnect(document) for document in others)]


def _is_interconnect(data: Any) -> bool:
    if not isinstance(data, dict) or not isinstance(data.get("metadata"), dict):
        return False
    return str(data.get("apiVersion")).partition("/")[0] == INTERCONNECT and data.get("kind") == "Interconnect"


def _skipped(document: Document) -> str:
    """A note on a resource of another kind."""
    data = document.data if isinstance(document.data, dict) else {}
    metadata = data.get("metadata") if isinstance(data.get("metadata"), dict) else {}
    what = f"{data.get('kind') or 'document'}/{(metadata or {}).get('name') or '?'}"
    text = f"{document.file}:{document.line(())}: {what}: is not an Interconnect; not translated"
    files = data.get("data") if data.get("kind") == "ConfigMap" else None
    named = [str(name) for name in files or () if str(name).endswith((".conf", ".json"))]
    return text + "".join(f"; if {name} configures a router, write it to a file and translate that" for name in named)


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


def _interconnect(document: Document, skipped: tuple[str, ...] = ()) -> Source:
    spec = document.data.get("spec") or {}
    plan = spec.get("deploymentPlan") or {}
    place = f"{document.file}:{document.line(('spec',))}"
    entities = [Entity("router", {"mode": plan.get("role", "interior")}, place), *_entities(document, spec)]
    if not spec.get("listeners"):
        entities.append(Entity("listener", {"port": 5672}, place))
    metadata = document.data["metadata"]
    return Source(
        f"{document.file}:{document.line(())}",
        entities,
        size=_size(plan),
        name=str(metadata.get("name", "")),
        namespace=str(metadata.get("namespace", "")),
        plan={**plan, "unknown": sorted(spec.keys() - _TYPES.keys() - {"deploymentPlan"})},
        skipped=skipped,
    )


def _entities(document: Document, spec: dict[str, Any]) -> Iterator[Entity]:
    for field, (kind, extra) in _TYPES.items():
        for index, item in enumerate(spec.get(field) or ()):
            attributes = {_RENAMED.get(name, name): value for name, value in item.items()}
            if attributes.pop("routeContainer", False):
                attributes["role"] = "route-container"
            place = f"{document.file}:{document.line(('spec', field, index))}"
            yield entity_of(kind, {**attributes, **extra}, place, _OTHERS)


def _size(plan: dict[str, Any]) -> int:
    size = plan.get("size")
    return size if isinstance(size, int) and size > 0 else 1
