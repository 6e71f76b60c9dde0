"""Identities of entities: `identity` is `<type>/<identifier>`, and `name` defaults to it (AMQP Mapping 3.3.5).

The identities of autolinks and link routes are numbers, and their names default to `<type>/<number>`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from itertools import count
from typing import Any

Identify = Callable[[Mapping[str, Any]], "str | None"]
"""Returns the identifier part of an identity; None if the attributes do not have it."""


def _host_port_name(attributes: Mapping[str, Any]) -> str | None:
    """Listeners and connectors: `host:port`, also without a host, followed by `:name` if they have a name."""
    place = f"{attributes.get('host') or ''}:{attributes.get('port') or ''}"
    name = attributes.get("name")
    return f"{place}:{name}" if name else place


def _attribute(name: str) -> Identify:
    def identify(attributes: Mapping[str, Any]) -> str | None:
        value = attributes.get(name)
        return None if value in (None, "") else str(value)

    return identify


_BY_TYPE: Mapping[str, Identify] = {
    "listener": _host_port_name,
    "connector": _host_port_name,
    "router": _attribute("id"),
    "log": _attribute("module"),
    "vhost": _attribute("hostname"),
    "router.node": _attribute("id"),
}
_BY_NAME = _attribute("name")
_NUMBERED = ("router.config.autoLink", "router.config.linkRoute")
"""Types whose identities are plain numbers, as scripts for Dispatch expect."""


def make_identity(
    type_name: str, attributes: Mapping[str, Any], taken: Container[str], numbers: Iterable[int]
) -> str:
    """Identity of a new entity of the short type name; a number if its attributes do not identify it.

    `numbers`: numbers that no entity of the type has had.
    """
    if type_name in _NUMBERED:
        return next(identity for n in numbers if (identity := str(n)) not in taken)
    identifier = _BY_TYPE.get(type_name, _BY_NAME)(attributes)
    if identifier is not None:
        return f"{type_name}/{identifier}"
    return next(identity for n in numbers if (identity := f"{type_name}/{n}") not in taken)


def configured_name(type_name: str, attributes: Mapping[str, Any]) -> str:
    """The name of an entity of a configuration; the identity that it will have, if it has no name."""
    return str(attributes["name"] or make_identity(type_name, attributes, (), count()))
