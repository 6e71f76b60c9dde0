"""Documents to resources: each against its CRD, then all of them against each other. Everything wrong is collected."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.desired import conflicts
from waymesh_operator.errors import ManifestError, Problem
from waymesh_operator.specs import Address, Ref, Router, parse_address, parse_router, ref_of

from .crds import GROUP, Crd
from .rules import rule_findings
from .source import Document, Path_, show_path
from .structural import findings, with_defaults, without_nulls

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
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


@dataclass(frozen=True, slots=True)
class Resources:
    """What a set of manifests asks for. `manifests` are the validated ones by kind and name; `idle` are valid resources
    of kinds that nothing acts on yet."""

    routers: tuple[Router, ...] = ()
    addresses: tuple[Address, ...] = ()
    manifests: Mapping[Identity, Mapping[str, Any]] = field(default_factory=dict)
    idle: tuple[Identity, ...] = ()


def check(documents: Iterable[Document], crds: Mapping[str, Crd], before: Resources | None = None) -> Resources:
    """Resources of the documents; raises ManifestError with all that is wrong.

    `before` is what was there until now, for rules about changes.
    """
    checker = _Checker(crds, before or Resources())
    for document in documents:
        checker.add(document)
    return checker.finish()


class _Checker:
    def __init__(self, crds: Mapping[str, Crd], before: Resources) -> None:
        self._crds = crds
        self._before = before.manifests
        self._found: dict[Identity, tuple[Document, Mapping[str, Any]]] = {}
        self._names: dict[Identity, tuple[str, int]] = {}
        self._problems: list[Problem] = []

    def add(self, document: Document) -> None:
        """One document: its kind, its name, its fields, its rules."""
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
            self._found[identity] = (document, full)
        self._report(document, subject, wrong)

    def finish(self) -> Resources:
        """What follows from all documents together, then the result or the error."""
        routers = [parse_router(full) for (kind, _), (_, full) in self._found.items() if kind == "Router"]
        addresses = [parse_address(full) for (kind, _), (_, full) in self._found.items() if kind == "Address"]
        self._check_references()
        for loser, winner in conflicts(addresses).items():
            document, _ = self._found["Address", loser]
            path = ("spec", "prefix" if winner.prefix is not None else "pattern")
            message = f"{winner.match} is taken already by Address/{winner.ref}"
            self._report(document, f"Address/{loser}", [(path, message)])
        if self._problems:
            raise ManifestError(self._problems)
        idle = tuple(identity for identity in self._found if identity[0] not in ("Router", "Address"))
        manifests = {identity: full for identity, (_, full) in self._found.items()}
        return Resources(tuple(routers), tuple(addresses), manifests, idle)

    def _crd(self, document: Document) -> Crd | None:
        data = document.data
        if not isinstance(data, dict):
            self._report(document, "", [((), "is no manifest: apiVersion, kind, metadata and spec are expected")])
            return None
        missing = [((name,), "is required") for name in ("apiVersion", "kind") if not isinstance(data.get(name), str)]
        if missing:
            self._report(document, "", missing)
            return None
        crd = self._crds.get(data["kind"])
        if crd is not None and data["apiVersion"] == crd.api_version:
            return crd
        if crd is None and data["apiVersion"].partition("/")[0] != GROUP:
            message = f"{data['kind']} of {data['apiVersion']} is no Waymesh resource; leave it out here"
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
        """Take kind and name; a second document with the same is refused."""
        path: Path_ = ("metadata", "name")
        identity = (crd.kind, ref_of(value))
        here = (document.file, document.line(path))
        file, line = self._names.setdefault(identity, here)
        if (file, line) == here:
            return []
        return [(path, f"there is a {crd.kind} of this name already, in {file}:{line}")]

    def _check_references(self) -> None:
        for (kind, ref), (document, full) in self._found.items():
            reference = full["spec"].get("routerRef")
            if not reference:
                continue
            target = Ref(ref.namespace, reference["name"])
            if ("Router", target) not in self._names:
                message = f"there is no Router {target.name} in namespace {target.namespace}"
                self._report(document, f"{kind}/{ref}", [(("spec", "routerRef", "name"), message)])

    def _report(self, document: Document, subject: str, wrong: Iterable[tuple[Path_, str]]) -> None:
        for path, message in wrong:
            self._problems.append(Problem(document.file, document.line(path), subject, show_path(path), message))


def _metadata_findings(crd: Crd, value: Mapping[str, Any]) -> Iterator[tuple[Path_, str]]:
    yield from findings(_METADATA, value.get("metadata", {}), ("metadata",))
    name = value["metadata"].get("name") if isinstance(value.get("metadata"), dict) else None
    if not isinstance(name, str):
        return
    if crd.kind == "Router" and not _ROUTER_NAME.fullmatch(name):
        yield ("metadata", "name"), f"must be at most 50 of a-z, 0-9 and -, beginning with a letter (got {name!r})"
    elif not _NAME.fullmatch(name):
        yield (
            ("metadata", "name"),
            f"must be made of a-z, 0-9, - and ., with - and . only inside (got {name!r})",
        )


def _subject(value: Mapping[str, Any]) -> str:
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{value['kind']}/{name}" if isinstance(name, str) else str(value["kind"])
