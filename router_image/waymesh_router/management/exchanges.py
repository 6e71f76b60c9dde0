"""Adapters of exchanges and their bindings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from waymesh_router.management.adapters import Attributes, ConfiguredEntities, EntityAdapter
from waymesh_router.management.errors import bad_request, conflict
from waymesh_router.management.view import RouterView
from waymesh_schema.entities import entity_type


def exchanges(view: RouterView) -> list[EntityAdapter]:
    """The adapters of both types. Deleting an exchange also deletes its bindings."""

    def add(attributes: Attributes) -> None:
        view.core.exchanges.add(attributes)

    def bind(attributes: Attributes) -> None:
        view.core.exchanges.bind(attributes)

    def unbind(attributes: Attributes) -> None:
        view.core.exchanges.unbind(attributes)

    def remove(attributes: Attributes) -> None:
        for identity in list(view.core.exchanges.by_name[attributes["name"]].bindings):
            bindings.delete(identity)
        view.core.exchanges.remove(attributes["name"])

    def live(attributes: Attributes, _now: float) -> Mapping[str, Any]:
        one = view.core.exchanges.by_name[attributes["name"]]
        counts = {"receivedCount": one.received, "forwardedCount": one.forwarded}
        counts |= {"divertedCount": one.diverted, "droppedCount": one.dropped}
        return {"bindingCount": len(one.bindings), **counts}

    bindings = ConfiguredEntities(
        entity_type("router.config.binding"),
        on_create=_with_status(bind),
        on_delete=unbind,
        live=lambda attributes, _now: {"matchedCount": view.core.exchanges.matched(attributes)},
    )
    made = ConfiguredEntities(
        entity_type("router.config.exchange"),
        on_create=_with_status(add),
        on_delete=remove,
        live=live,
    )
    return [made, bindings]


def _with_status(action: Callable[[Attributes], None]) -> Callable[[Attributes], None]:
    """Wrap an action: KeyError becomes status 409, ValueError 400."""

    def act(attributes: Attributes) -> None:
        try:
            action(attributes)
        except KeyError as error:
            raise conflict(str(error.args[0])) from error
        except ValueError as error:
            raise bad_request(str(error)) from error

    return act
