"""Validates documents against their CRDs and against each other, and returns resources. Collects all errors."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from waymesh_operator.errors import ManifestError, Problem

from .crds import (
    GROUP,
    SECRET,
    Crd,
    findings,
    rule_findings,
    secret_data,
    secret_findings,
    with_defaults,
    without_nulls,
)
from .dependents import (
    Address,
    AutoLink,
    Broker,
    Dependent,
    LinkRoute,
    Resources,
    autolink_conflicts,
    broker_conflicts,
    by_container,
    conflicts,
    linkroute_conflicts,
    parse_address,
    parse_autolink,
    parse_broker,
    parse_linkroute,
    router_link_conflicts,
    vhost_policy_conflicts,
)
from .exchange import Exchange, exchange_conflicts, parse_exchange
from .manifests import Document, Path_, show_path
from .router import Ref, Router, parse_router, ref_of
from .router_link import RouterLink, parse_router_link
from .vhost_policy import VhostPolicy, parse_vhost_policy

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ROUTER_NAME = re.compile(r"[a-z]([a-z0-9-]{0,48}[a-z0-9])?")
_METADATA: Mapping[str, Any] = {
    "type": "object",
    "required": ["name"],
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        "name": {"type": "string"},
        "namespace": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
_ANYTHING: Mapping[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
Identity = tuple[str, Ref]
_Claiming = Address | Broker | AutoLink | LinkRoute | VhostPolicy | RouterLink | Exchange
_R = TypeVar("_R")
_D = TypeVar("_D", bound=Dependent)


@dataclass(frozen=True, slots=True)
class Checked:
    """The contents of a set of manifests: each Router with the resources that refer to it, and Secrets by name.
    `manifests`: the validated ones by kind and name."""

    meshes: Mapping[Ref, Resources] = field(default_factory=dict)
    secrets: Mapping[Ref, Mapping[str, bytes]] = field(default_factory=dict)
    manifests: Mapping[Identity, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def routers(self) -> tuple[Router, ...]:
        """The Routers."""
        return tuple(resources.router for resources in self.meshes.values())

    def secrets_of(self, namespace: str) -> dict[str, Mapping[str, bytes]]:
        """The Secrets of a namespace by name."""
        return {ref.name: data for ref, data in self.secrets.items() if ref.namespace == namespace}


def check(documents: Iterable[Document], crds: Mapping[str, Crd], before: Checked | None = None) -> Checked:
    """Return the resources of the documents; raises ManifestError with all errors.

    `before`: the manifests that are replaced, for rules about changes.
    """
    checker = _Checker(crds, before or Checked())
    for document in documents:
        checker.add(document)
    return checker.finish()


def check_alone(documents: Iterable[Document], crds: Mapping[str, Crd], namespace: str) -> list[Mapping[str, Any]]:
    """Return the manifests of our API group with defaults, each checked separately and not against others.

    Documents of other API groups are ignored. `namespace` applies to documents without one. Raises ManifestError.
    """
    checker = _Checker(crds, Checked())
    for document in documents:
        if not _foreign(document.data):
            checker.add(_in_namespace(document, namespace))
    return checker.manifests()


def _foreign(data: Any) -> bool:
    """Whether this is a manifest of another API group."""
    version = data.get("apiVersion") if isinstance(data, dict) and isinstance(data.get("kind"), str) else None
    return isinstance(version, str) and version.partition("/")[0] != GROUP and data["kind"] != "List"


def _in_namespace(document: Document, namespace: str) -> Document:
    metadata = document.data.get("metadata") if isinstance(document.data, dict) else None
    if not isinstance(metadata, dict) or metadata.get("namespace") not in (None, ""):
        return document
    return replace(document, data={**document.data, "metadata": {**metadata, "namespace": namespace}})


class _Checker:
    def __init__(self, crds: Mapping[str, Crd], before: Checked) -> None:
        self._crds = {**crds, SECRET.kind: SECRET}
        self._before = before.manifests
        self._found: dict[Identity, tuple[Document, Mapping[str, Any]]] = {}
        self._names: dict[Identity, tuple[str, int]] = {}
        self._broken: set[Identity] = set()
        self._problems: list[Problem] = []

    def add(self, document: Document) -> None:
        """Validate one document: kind, name, fields and rules."""
        crd = self._crd(document)
        if crd is None:
            return
        value = without_nulls(document.data)
        subject = _subject(value)
        wrong = list(_metadata_findings(crd, value)) or self._claim(document, crd, value)
        full = with_defaults(crd.schema, value)
        wrong += findings({**crd.schema, "properties": {**crd.schema["properties"], "metadata": _ANYTHING}}, full)
        if not wrong:
            identity = (crd.kind, ref_of(full))
            wrong += rule_findings(crd.schema, full, self._before.get(identity))
            wrong += secret_findings(full) if crd is SECRET else ()
            self._found[identity] = (document, full)
            if wrong:
                self._broken.add(identity)
        self._report(document, subject, wrong)

    def finish(self) -> Checked:
        """Check the documents against each other and return the result. Raises ManifestError."""
        routers = self._parsed("Router", parse_router)
        addresses = self._parsed("Address", parse_address)
        brokers = self._parsed("Broker", parse_broker)
        autolinks = self._parsed("AutoLink", parse_autolink)
        linkroutes = self._parsed("LinkRoute", parse_linkroute)
        policies = self._parsed("VhostPolicy", parse_vhost_policy)
        links = self._parsed("RouterLink", parse_router_link)
        exchanges = self._parsed("Exchange", parse_exchange)
        self._check_references()
        self._report_conflicts("Address", conflicts(addresses))
        self._report_conflicts("Broker", broker_conflicts(brokers))
        self._report_conflicts("AutoLink", autolink_conflicts(by_container(autolinks, brokers)))
        self._report_conflicts("LinkRoute", linkroute_conflicts(linkroutes))
        self._report_conflicts("VhostPolicy", vhost_policy_conflicts(policies))
        self._report_conflicts("RouterLink", router_link_conflicts(links))
        self._report_conflicts("Exchange", exchange_conflicts(exchanges))
        if self._problems:
            raise ManifestError(self._problems)
        meshes = {
            r.ref: Resources(
                r,
                _at(r, addresses),
                _at(r, brokers),
                _at(r, autolinks),
                _at(r, linkroutes),
                _at(r, policies),
                _at(r, links),
                _at(r, exchanges),
            )
            for r in routers
        }
        manifests = {identity: full for identity, (_, full) in self._found.items()}
        secrets = {ref: secret_data(full) for (kind, ref), full in manifests.items() if kind == SECRET.kind}
        return Checked(meshes, secrets, manifests)

    def manifests(self) -> list[Mapping[str, Any]]:
        """The valid manifests, in the order of the documents. Raises ManifestError when any is not."""
        if self._problems:
            raise ManifestError(self._problems)
        return [full for _, full in self._found.values()]

    def _parsed(self, kind: str, parse: Callable[[Mapping[str, Any]], _R]) -> list[_R]:
        whole = {identity: full for identity, (_, full) in self._found.items() if identity not in self._broken}
        return [parse(full) for (found, _), full in whole.items() if found == kind]

    def _report_conflicts(self, kind: str, lost: Mapping[Ref, _Claiming]) -> None:
        for loser, winner in lost.items():
            document, full = self._found[kind, loser]
            name, taken = _claimed(winner, full["spec"])
            message = f"{taken} is already used by {kind}/{winner.ref}"
            self._report(document, f"{kind}/{loser}", [(("spec", name), message)])

    def _crd(self, document: Document) -> Crd | None:
        data = document.data
        if not isinstance(data, dict):
            self._report(document, "", [((), "is not a manifest: apiVersion, kind, metadata and spec are expected")])
            return None
        missing = [((name,), "is required") for name in ("apiVersion", "kind") if not isinstance(data.get(name), str)]
        if missing:
            self._report(document, "", missing)
            return None
        crd = self._crds.get(data["kind"])
        if crd is not None and data["apiVersion"] == crd.api_version:
            return crd
        if crd is None and data["apiVersion"].partition("/")[0] != GROUP:
            message = f"{data['kind']} of {data['apiVersion']} is not a Waymesh resource; remove it from these files"
            self._report(document, "", [(("kind",), message)])
        elif crd is None:
            near = difflib.get_close_matches(data["kind"], self._crds, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(sorted(self._crds))}"
            self._report(document, "", [(("kind",), f"unknown kind {data['kind']}{hint}")])
        else:
            message = f"must be {crd.api_version} for a {crd.kind} (got {data['apiVersion']})"
            self._report(document, _subject(data), [(("apiVersion",), message)])
        return None

    def _claim(self, document: Document, crd: Crd, value: Mapping[str, Any]) -> list[tuple[Path_, str]]:
        """Reserve kind and name; a second document with the same kind and name is an error."""
        path: Path_ = ("metadata", "name")
        identity = (crd.kind, ref_of(value))
        here = (document.file, document.line(path))
        file, line = self._names.setdefault(identity, here)
        if (file, line) == here:
            return []
        return [(path, f"duplicate {crd.kind} of this name, first in {file}:{line}")]

    def _check_references(self) -> None:
        for (kind, ref), (document, full) in self._found.items():
            reference = full.get("spec", {}).get("routerRef")
            if not reference:
                continue
            target = Ref(ref.namespace, reference["name"])
            if ("Router", target) not in self._names:
                message = f"there is no Router {target.name} in namespace {target.namespace}"
                self._report(document, f"{kind}/{ref}", [(("spec", "routerRef", "name"), message)])

    def _report(self, document: Document, subject: str, wrong: Iterable[tuple[Path_, str]]) -> None:
        for path, message in wrong:
            self._problems.append(Problem(document.file, document.line(path), subject, show_path(path), message))


def _claimed(winner: _Claiming, loser: Mapping[str, Any]) -> tuple[str, str]:
    """Return the field of a loser's spec that causes the conflict, and its value."""
    if isinstance(winner, Broker):
        return "brokerContainerId", winner.incoming_id
    if isinstance(winner, AutoLink):
        return "address", winner.address
    if isinstance(winner, RouterLink):
        return ("tokenSecretRef", winner.token) if winner.token else ("endpoints", "one of them")
    if isinstance(winner, Exchange):
        same = loser["address"] == winner.address and loser["phase"] == winner.phase
        return ("address", winner.address) if same else ("bindings", "the address of one of both, in the other,")
    if not isinstance(winner, VhostPolicy):
        return "prefix" if winner.prefix is not None else "pattern", winner.match
    if loser["hostname"] in winner.names:
        return "hostname", loser["hostname"]
    return "aliases", next(name for name in loser["aliases"] if name in winner.names)


def _at(router: Router, resources: Iterable[_D]) -> tuple[_D, ...]:
    return tuple(resource for resource in resources if resource.router == router.ref)


def _metadata_findings(crd: Crd, value: Mapping[str, Any]) -> Iterator[tuple[Path_, str]]:
    yield from findings(_METADATA, value.get("metadata", {}), ("metadata",))
    metadata = value.get("metadata")
    name, namespace = (metadata.get("name"), metadata.get("namespace")) if isinstance(metadata, dict) else (None, None)
    if isinstance(namespace, str) and namespace and not _NAMESPACE.fullmatch(namespace):
        yield (
            ("metadata", "namespace"),
            f"must be at most 63 of a-z, 0-9 and -, and begin and end with a letter or digit (got {namespace!r})",
        )
    if not isinstance(name, str):
        return
    if crd.kind == "Router" and not _ROUTER_NAME.fullmatch(name):
        yield ("metadata", "name"), f"must be at most 50 of a-z, 0-9 and -, beginning with a letter (got {name!r})"
    elif not _NAME.fullmatch(name):
        yield (
            ("metadata", "name"),
            f"must consist of a-z, 0-9, - and ., and begin and end with a letter or digit (got {name!r})",
        )


def _subject(value: Mapping[str, Any]) -> str:
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{value['kind']}/{name}" if isinstance(name, str) else str(value["kind"])
