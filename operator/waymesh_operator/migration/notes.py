"""What a translation has made so far, and notes on what it did not take over unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.resources.crds import GROUP
from waymesh_schema.text import one_line

from .names import Names
from .source import Entity

Manifest = dict[str, Any]
VERSION = f"{GROUP}/v1alpha1"
_OWN = frozenset(("name", "identity", "type"))
_DENYING: Mapping[str, frozenset[str]] = {
    "listener": frozenset(
        ("authenticatePeer", "saslMechanisms", "policyVhost", "multiTenant", "requireSsl", "requireEncryption",
         "peerNames", "trustedCertsFile", "sslProfile", "sslProfilesByHost", "strictEdges", "connectionRate",
         "maxConnections", "maxOpeningConnections", "maxLinks")
    ),
    "connector": frozenset(("policyVhost", "verifyHostname", "sslProfile", "saslMechanisms")),
    "sslProfile": frozenset(("ciphers", "protocols", "crlFile", "peersOnly", "uidFormat", "uidNameMappingFile")),
}  # fmt: skip
"""Attributes that deny something. So do all of policies and vhosts."""


@dataclass
class Translation:
    """The manifests so far, and notes on what was not taken over unchanged."""

    router: str
    namespace: str = ""
    names: Names = field(default_factory=Names)
    manifests: list[Manifest] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    # What denied something and is lost; not among the notes.
    lost: list[str] = field(default_factory=list)
    # Where the input of a manifest is, by `Kind/name`, and of a field of it, by `Kind/name field`.
    places: dict[str, str] = field(default_factory=dict)
    # Name of each Broker by the router's ordinal and the name of its connector.
    brokers: dict[tuple[int, str], str] = field(default_factory=dict)

    def note(self, entity: Entity, text: str) -> None:
        """Note what has no counterpart, or what to do manually; each text once."""
        _add(self.notes, f"{entity.place}: {entity.type}: {text}")

    def lose(self, entity: Entity, text: str) -> None:
        """Note what denied something and has no counterpart; each text once."""
        _add(self.lost, f"{entity.place}: {entity.type}: {text}")

    def not_taken(self, entity: Entity, known: Iterable[str]) -> None:
        """Note unknown attributes."""
        taken = {*known, *_OWN}
        for name in (name for name in entity.attributes if name not in taken):
            tell = self.lose if _denies(entity, name) else self.note
            tell(entity, f"{name}: has no counterpart")

    def read(self, entity: Entity) -> None:
        """Note what was read as something else than it says, and what cannot be read."""
        for text in entity.remarks:
            self.note(entity, text)
        for name, reason in entity.wrong:
            if name not in entity.attributes:
                self.note(entity, reason)
            elif name != "port":  # that of a listener or connector, which is left out
                (self.lose if _denies(entity, name) else self.note)(entity, reason)

    def add(self, kind: str, name: str, spec: Mapping[str, Any], place: str, **other: Any) -> Manifest:
        """Append a manifest made from what is at that place."""
        metadata = {"name": name, **({"namespace": self.namespace} if self.namespace else {})}
        version = "v1" if kind == "Secret" else VERSION
        manifest: Manifest = {"apiVersion": version, "kind": kind, "metadata": metadata, **other}
        if spec:
            manifest["spec"] = dict(spec)
        self.manifests.append(manifest)
        self.places[f"{kind}/{name}"] = place
        return manifest

    def add_dependent(self, kind: str, name: str, spec: Mapping[str, Any], place: str) -> None:
        """Append a manifest that refers to the Router, unless there is one with the same spec."""
        full = {"routerRef": {"name": self.router}, **spec}
        if not any(item["kind"] == kind and item.get("spec") == full for item in self.manifests):
            self.add(kind, self.names.choose(kind, name), full, place)

    def place_also(self, spec: Manifest, ordinal: int, routers: int) -> None:
        """Add a router to those of a Broker or RouterLink; all of them need no list."""
        placement = spec.get("placement")
        if placement is not None and ordinal not in placement["ordinals"]:
            placement["ordinals"].append(ordinal)
            if len(placement["ordinals"]) == routers:
                del spec["placement"]

    def place_of(self, subject: str, path: str) -> str:
        """Where the input of a field of a manifest is (`Kind/name`, `spec.listeners[0].port`)."""
        whole = f"{subject} {path}"
        known = [key for key in self.places if whole == key or whole.startswith((f"{key} ", f"{key}.", f"{key}["))]
        return self.places[max(known, key=len)] if known else ""


def _add(lines: list[str], text: str) -> None:
    line = one_line(text)  # it becomes a comment of the manifests
    if line not in lines:
        lines.append(line)


def _denies(entity: Entity, name: str) -> bool:
    if entity.type in ("policy", "vhost"):
        return not entity.is_default(name)
    return name in _DENYING.get(entity.type, ()) and not entity.is_default(name)
