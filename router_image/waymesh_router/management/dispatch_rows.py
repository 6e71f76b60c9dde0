"""Rows of type `allocator`, which tools for Dispatch expect; the router has no such entities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from waymesh_amqp.session import Session
from waymesh_router.core.model import Address, Node, RouterConnection, RouterLink
from waymesh_router.management.adapters import EntityAdapter, TableEntities
from waymesh_router.management.view import CoreView
from waymesh_schema.entities import entity_type
from waymesh_schema.model import EntityType


def dispatch_rows(core: CoreView) -> dict[str, EntityAdapter]:
    """The adapters. Their keys are not type names, so requests can read the rows but not create entities."""
    allocator = _allocator(core)
    return {f"{allocator.entity_type.name} rows": allocator}


def _constant(value: object) -> Callable[[Any, float], Any]:
    return lambda _item, _now: value


def _allocator(core: CoreView) -> EntityAdapter:
    """Objects of the router by kind. Python frees each object at once: there are no pools, and all are in use."""
    kinds: dict[str, tuple[type, Callable[[], int]]] = {
        "address": (Address, lambda: len(core.addresses)),
        "connection": (RouterConnection, lambda: len(core.connections)),
        "link": (RouterLink, lambda: len(core.links)),
        "router": (Node, lambda: len(core.nodes)),
        "session": (Session, lambda: sum(len(conn.sessions) for conn in core.connections.values())),
    }
    kind: EntityType = entity_type("allocator")
    columns: dict[str, Callable[[Any, float], Any]] = {
        "identity": lambda name, _now: f"allocator/{name}",
        "typeName": lambda name, _now: name,
        "typeSize": lambda name, _now: kinds[name][0].__basicsize__,
        "heldByThreads": lambda name, _now: kinds[name][1](),
        "totalAllocFromHeap": lambda name, _now: kinds[name][1](),
    }
    for name in ("transferBatchSize", "localFreeListMax", "globalFreeListMax", "totalFreeToHeap"):
        columns[name] = _constant(0)
    columns["batchesRebalancedToThreads"] = columns["batchesRebalancedToGlobal"] = _constant(0)
    return TableEntities(kind, lambda: tuple(kinds), columns)
