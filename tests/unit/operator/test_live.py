"""Entities and views over management: requests, results, and failures."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from waymesh_client.errors import ClientError, ConnectionFailed, ManagementError
from waymesh_operator.errors import LiveError
from waymesh_operator.router_entities.actions import CreateEntity, DeleteEntity, UpdateEntity, changed_attributes
from waymesh_operator.router_entities.names import ADDRESS, LOG, MANAGED_TYPES, Entity
from waymesh_operator.routers.management import apply_entity, read_addresses, read_entities, read_router, set_draining

pytestmark = pytest.mark.engine_independent


class Script:
    """A client with prepared answers; an error instead of rows is raised."""

    def __init__(self, rows: Mapping[str, Any] | None = None, error: ClientError | None = None) -> None:
        self.rows = rows or {}
        self.error = error
        self.calls: list[tuple[Any, ...]] = []

    def _call(self, *call: Any) -> None:
        self.calls.append(call)
        if self.error:
            raise self.error

    def query(self, entity_type: str | None = None, attributes: Sequence[str] = ()) -> list[dict[str, Any]]:
        self._call("query", entity_type)
        return list(self.rows.get(entity_type or "", ()))

    def pages(self, entity_type: str | None = None) -> Iterator[list[dict[str, Any]]]:
        yield from [[row] for row in self.query(entity_type)]

    def create(self, entity_type: str, attributes: Mapping[str, Any], *, name: str | None = None) -> dict[str, Any]:
        self._call("create", entity_type, name, dict(attributes))
        return {}

    def update(
        self, attributes: Mapping[str, Any], entity_type: str | None = None, *, name: str | None = None
    ) -> dict[str, Any]:
        self._call("update", entity_type, name, dict(attributes))
        return {}

    def delete(self, entity_type: str | None = None, *, name: str | None = None) -> None:
        self._call("delete", entity_type, name)

    def close(self) -> None:
        self.calls.append(("close",))


ENTITY = Entity(ADDRESS, "k8s/default/Address/a", {"prefix": "a", "pattern": None, "waypoint": False})


def test_entities_are_read_by_type_and_log_modules_are_called_alike() -> None:
    client = Script(
        {ADDRESS: [{"name": "x", "prefix": "p"}], LOG: [{"name": "AGENT", "module": "AGENT", "enable": None}]}
    )
    assert [(e.type, e.name) for e in read_entities(client)] == [(ADDRESS, "x"), (LOG, "log/AGENT")]
    assert client.calls == [("query", kind) for kind in MANAGED_TYPES]


def test_the_rows_of_a_page_are_not_kept() -> None:
    """Those of thousands of addresses take more memory than what is made of them."""

    class Row(dict[str, Any]):
        pass

    rows: list[weakref.ref[Row]] = []
    kept: list[int] = []

    class Pages(Script):
        def pages(self, entity_type: str | None = None) -> Iterator[list[dict[str, Any]]]:
            for number in range(5):
                page: list[dict[str, Any]] = [Row(name=f"x{number}", prefix="p")]
                rows.extend(map(weakref.ref, page))  # type: ignore[arg-type]
                yield page
                del page
                gc.collect()
                kept.append(sum(row() is not None for row in rows))

    assert len(read_entities(Pages(), [ADDRESS])) == 5
    assert max(kept) <= 1, "the page that is being read"


def test_what_is_kept_of_a_live_address_is_what_differs_from_the_defaults() -> None:
    """Routers report a dozen attributes of each; the operator compares them with the desired ones as before."""
    plain = {"prefix": "a", "pattern": None, "distribution": "balanced", "waypoint": False, "expired": "reject"}
    own = {"name": "k8s/default/Address/a", "identity": f"{ADDRESS}/k8s/default/Address/a", "type": f"org.{ADDRESS}"}
    (kept,) = read_entities(Script({ADDRESS: [{**plain, **own}]}), [ADDRESS])
    assert (kept.name, dict(kept.attributes)) == (own["name"], {"prefix": "a", "distribution": "balanced"})
    assert changed_attributes(Entity(ADDRESS, kept.name, plain), kept) == {}
    other = {**plain, "distribution": "closest", "waypoint": True, "ingressPhase": 0, "expired": "drop"}
    (kept,) = read_entities(Script({ADDRESS: [{**other, **own}]}), [ADDRESS])
    assert changed_attributes(Entity(ADDRESS, kept.name, other), kept) == {}
    assert changed_attributes(Entity(ADDRESS, kept.name, plain), kept) == {
        "distribution": ("closest", "balanced"),
        "waypoint": (True, False),
        "expired": ("drop", "reject"),
    }


def test_steps_become_management_requests() -> None:
    client = Script()
    apply_entity(client, CreateEntity("r", ENTITY))
    apply_entity(
        client, UpdateEntity("r", Entity(LOG, "log/AGENT", {"name": "AGENT"}), {"enable": ("info+", "debug+")})
    )
    apply_entity(client, DeleteEntity("r", ENTITY))
    assert client.calls == [
        ("create", ADDRESS, "k8s/default/Address/a", {"prefix": "a", "waypoint": False}),
        ("update", LOG, "AGENT", {"enable": "debug+"}),
        ("delete", ADDRESS, "k8s/default/Address/a"),
    ]


def test_what_is_gone_already_is_no_failure_and_everything_else_is() -> None:
    gone = Script(error=ManagementError(404, "Not Found"))
    assert apply_entity(gone, DeleteEntity("r", ENTITY)) is None
    assert apply_entity(gone, UpdateEntity("r", ENTITY, {"quiescing": (True, False)})) is None
    with pytest.raises(LiveError, match="Not Found"):
        apply_entity(gone, CreateEntity("r", ENTITY))
    with pytest.raises(LiveError, match=r"r: create address a \(prefix a, None\): no \(400\)"):
        apply_entity(Script(error=ManagementError(400, "no")), CreateEntity("r", ENTITY))
    with pytest.raises(LiveError, match="cannot reach a router"):
        apply_entity(Script(error=ConnectionFailed("h", 1, "refused")), DeleteEntity("r", ENTITY))


@pytest.mark.parametrize(
    "read",
    [read_entities, lambda c: set_draining(c, "r", 5), lambda c: read_router(c, "r"), lambda c: read_addresses([c])],
)
def test_a_router_that_does_not_answer(read: Any) -> None:
    with pytest.raises(LiveError, match="refused"):
        read(Script(error=ConnectionFailed("h", 1, "refused")))


LINKS = [
    {"linkType": "endpoint", "linkDir": "in", "owningAddr": "M0orders", "unsettledCount": 2, "undeliveredCount": 1},
    {"linkType": "endpoint", "linkDir": "out", "owningAddr": "M0orders", "unsettledCount": None, "undeliveredCount": 4},
    {"linkType": "inter-router", "linkDir": "in", "owningAddr": None, "unsettledCount": 9},
    {"linkType": "endpoint", "linkDir": "in", "owningAddr": "L$management", "unsettledCount": 1},
    {"linkType": "endpoint", "linkDir": "out", "owningAddr": "Ltemp.1", "unsettledCount": 1},
]


def test_the_view_of_a_router() -> None:
    nodes = [{"id": "r"}, {"id": "b", "nextHop": None}, {"id": "a", "nextHop": None}, {"id": "c", "nextHop": "a"}]
    connections = [{"role": "normal"}, {"role": "normal"}, {"role": "inter-router"}]
    client = Script({"router.node": nodes, "router.link": LINKS, "connection": connections})
    view = read_router(client, "r")
    assert view.known == {"a", "b", "c"}
    assert view.neighbours == ("a", "b")
    assert (view.connections, view.links, view.unsettled) == (1, 2, 7)


def test_addresses_are_summed_over_routers_and_the_routers_own_are_left_out() -> None:
    row = {
        "name": "M0orders",
        "distribution": "balanced",
        "subscriberCount": 1,
        "deliveriesIngress": 5,
        "deliveriesEgress": 2,
    }
    own = {"name": "M0$management", "inProcess": 1}
    client = Script({"router.address": [row, own, {"name": "Lqdhello"}, {"name": "M0"}], "router.link": LINKS})
    (orders,) = read_addresses([client, client])
    assert (orders.address, orders.distribution) == ("orders", "balanced")
    assert (orders.consumers, orders.producers, orders.ingress, orders.egress) == (2, 2, 10, 4)
