"""Routers in memory, as management shows them: entities, neighbours, draining."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from waymesh_client.channel import Tls
from waymesh_client.errors import ConnectionFailed, ManagementError
from waymesh_operator.router_entities.names import AUTOLINK, LINKROUTE, LOG, POLICY, ROUTER, TELEMETRY
from waymesh_operator.tls.certificates import issued_by, split_pem
from waymesh_operator.tls.rollover import TlsView
from waymesh_schema.loglevels import LOG_MODULES

Row = dict[str, Any]


class FakeRouter:
    """One router: a `PodClient` of itself. `refuse` gives a reason for an entity that it will not take."""

    def __init__(self, name: str, mesh: FakeMesh) -> None:
        self.name = name
        self.mesh = mesh
        self.up = True
        self.rows: dict[str, dict[str, Row]] = {
            ROUTER: {f"router/{name}": {"name": f"router/{name}", "id": name, "mode": "interior"}},
            TELEMETRY: {"telemetry/own": {"name": "telemetry/own"}},
            POLICY: {"policy/own": {"name": "policy/own"}},
            LOG: {f"log/{module}": {"module": module, "enable": "default"} for module in LOG_MODULES},
        }
        self.unsettled = 0
        self.serving: tuple[bytes, bytes] = (b"", b"")
        self.calls: list[tuple[str, str]] = []
        self.answered_at = float("-inf")

    def seed(self, entities: Sequence[Sequence[Any]]) -> None:
        """Boot with a configuration."""
        for kind, attributes in entities:
            if kind == ROUTER:
                self.router.update(attributes)
            elif kind == LOG:
                self.rows[LOG][f"log/{attributes['module']}"].update(attributes)
            elif kind in (TELEMETRY, POLICY):
                self.rows[kind][f"{kind}/own"].update(attributes)
            elif kind not in self.mesh.unknown_types:
                self.rows.setdefault(kind, {})[attributes["name"]] = {**self.mesh.state_of(kind), **attributes}

    @property
    def router(self) -> Row:
        return self.rows[ROUTER][f"router/{self.name}"]

    def names(self, kind: str) -> list[str]:
        return sorted(self.rows.get(kind, {}))

    # --- PodClient ---

    def query(self, entity_type: str | None = None, attributes: Sequence[str] = ()) -> list[Row]:
        self._called("query", str(entity_type))
        if entity_type == "router.node":
            return [{"id": name, "nextHop": None} for name in self.mesh.names_up()]
        if entity_type == "router.address":
            return [
                {"name": f"M0{address}", "subscriberCount": count} for address, count in self.mesh.consumers.items()
            ]
        if entity_type in self.mesh.unknown_types:
            raise ManagementError(501, f"{entity_type} is not implemented")
        if entity_type == ROUTER:
            draining = bool(self.router.get("draining"))
            status = "none" if not draining else "draining" if self.unsettled else "drained"
            self.router.update(drainStatus=status, unsettledDeliveries=self.unsettled)
        if entity_type == AUTOLINK and not self.unsettled:
            links = self.rows.get(AUTOLINK, {})
            self.rows[AUTOLINK] = {name: row for name, row in links.items() if not row.get("quiescing")}
        return copy.deepcopy(list(self.rows.get(str(entity_type), {}).values()))

    def pages(self, entity_type: str | None = None) -> Iterator[list[Row]]:
        yield self.query(entity_type)

    def create(self, entity_type: str, attributes: Mapping[str, Any], *, name: str | None = None) -> Row:
        self._called("create", str(name))
        reason = self.mesh.refuse(entity_type, str(name))
        if reason or entity_type in self.mesh.unknown_types:
            raise ManagementError(400, reason or f"{entity_type} is not implemented")
        row = {**self.mesh.state_of(entity_type), **attributes, "name": name}
        self.rows.setdefault(entity_type, {})[str(name)] = row
        return dict(row)

    def update(self, attributes: Mapping[str, Any], entity_type: str | None = None, *, name: str | None = None) -> Row:
        self._called("update", str(name))
        row = self.rows[str(entity_type)].get(str(name))
        if row is None:
            raise ManagementError(404, "not found")
        row.update(attributes)
        if "quiescing" in attributes:
            row["operStatus"] = "quiescing" if row["quiescing"] else "active"
        return dict(row)

    def delete(self, entity_type: str | None = None, *, name: str | None = None) -> None:
        self._called("delete", str(name))
        if self.rows.get(str(entity_type), {}).pop(str(name), None) is None:
            raise ManagementError(404, "not found")

    def close(self) -> None:
        self.calls.append(("close", ""))

    def _called(self, verb: str, what: str) -> None:
        self.mesh.fail(self.name, verb, what)
        if not self.up:
            raise ConnectionFailed(self.name, 55672, "connection refused")
        self.calls.append((verb, what))


class FakeMesh:
    """The routers of one mesh by the address of their pod: a `Reach`."""

    def __init__(self) -> None:
        self.routers: dict[str, FakeRouter] = {}
        self.unknown_types: set[str] = set()
        self.state: Row = {"operStatus": "active"}
        self.consumers: dict[str, int] = {}
        self.refuse: Callable[[str, str], str] = lambda kind, name: ""
        self.fail: Callable[[str, str, str], None] = lambda router, verb, what: None
        self.trusted: dict[str, bytes] = {}
        self.tls_seen: list[Tls] = []

    def start(self, address: str, name: str) -> FakeRouter:
        router = self.routers[address] = FakeRouter(name, self)
        return router

    def names_up(self) -> list[str]:
        return sorted(router.name for router in self.routers.values() if router.up)

    def named(self, name: str) -> FakeRouter:
        return next(router for router in self.routers.values() if router.name == name)

    def state_of(self, kind: str) -> Row:
        return dict(self.state) if kind in (AUTOLINK, LINKROUTE) else {}

    # --- Reach ---

    def client(self, address: str, tls: Tls) -> FakeRouter:
        self.tls_seen.append(tls)
        return self.routers[address]

    def tls_view(self, address: str, tls: Tls, probe: Tls | None) -> TlsView:
        router = self.routers.get(address)
        if router is None or not router.up or not router.serving[0]:
            return TlsView()
        certificate, authorities = router.serving
        shown = x509.load_pem_x509_certificate(certificate)
        digest = hashlib.sha256(shown.public_bytes(serialization.Encoding.DER)).hexdigest()
        trusted = probe is not None and any(issued_by(_read(probe.certificate), ca) for ca in split_pem(authorities))
        return TlsView(digest, shown.not_valid_after_utc, trusted)


def _read(path: str | None) -> bytes:
    assert path is not None
    with open(path, "rb") as file:
        return file.read()
