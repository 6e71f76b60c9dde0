"""From stored objects to the typed resources of a mesh, each parsed once for each of its versions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from waymesh_operator.resources.model import Address, AutoLink, Broker, LinkRoute, Ref, Resources, Router
from waymesh_operator.resources.parse import parse_address, parse_autolink, parse_broker, parse_linkroute, parse_router

from .inventory import Key, Object

log = logging.getLogger(__name__)
_PARSERS: Mapping[str, Callable[[Object], Any]] = {
    "Router": parse_router,
    "Address": parse_address,
    "Broker": parse_broker,
    "AutoLink": parse_autolink,
    "LinkRoute": parse_linkroute,
}


class Parser:
    """Parses the resources of one mesh."""

    def __init__(self) -> None:
        self._parsed: dict[Key, tuple[str, Any]] = {}

    def resources(self, mesh: Ref, objects: Mapping[Key, Object]) -> Resources:
        """All that can be read; without a Router, or with one on its way out, its `uid` is empty."""
        found: dict[str, list[Any]] = {kind: [] for kind in _PARSERS}
        former, self._parsed = self._parsed, {}
        for key, body in objects.items():
            if key[0] in _PARSERS and not body["metadata"].get("deletionTimestamp"):
                known = former.get(key)
                version = body["metadata"].get("resourceVersion", "")
                entry = known if known and known[0] == version else (version, _parse(body))
                self._parsed[key] = entry
                if entry[1] is not None:
                    found[key[0]].append(entry[1])
        router: Router = next(iter(found["Router"]), Router(mesh))
        addresses: list[Address] = found["Address"]
        brokers: list[Broker] = found["Broker"]
        autolinks: list[AutoLink] = found["AutoLink"]
        linkroutes: list[LinkRoute] = found["LinkRoute"]
        return Resources(router, tuple(addresses), tuple(brokers), tuple(autolinks), tuple(linkroutes))


def _parse(body: Object) -> Any:
    """The resource; None for one that an older schema let in and this one would not."""
    try:
        return _PARSERS[body["kind"]](body)
    except (KeyError, TypeError, ValueError) as error:
        log.error("%s %s cannot be read: %r", body["kind"], body["metadata"]["name"], error)
        return None
