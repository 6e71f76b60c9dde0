"""Vhosts that stand for those of an operator that a router cannot enforce: they deny all clients.

Without them, another vhost could apply to these clients and allow them more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from waymesh_router.management.errors import ManagementError
from waymesh_router.policy.settings import alias_names
from waymesh_schema.errors import SchemaError

if TYPE_CHECKING:
    from waymesh_router.management.agent import Agent

OPERATOR_PREFIX = "k8s/"
"""Prefix of the names of entities that an operator configured."""


def of_operator(attributes: Mapping[str, Any]) -> bool:
    """Whether these are attributes of an entity that an operator configured."""
    return str(attributes.get("name") or "").startswith(OPERATOR_PREFIX)


def deny_all(agent: Agent, attributes: Mapping[str, Any]) -> str | None:
    """Create a vhost without groups, with the host name and those aliases that no other vhost has.

    Returns its identity; None if the host name or the entity's name is another vhost's.
    """
    try:
        identity = agent.configure("vhost", {name: attributes.get(name) for name in ("name", "hostname")})
    except (ManagementError, SchemaError):
        return None
    kept: list[str] = []
    for alias in alias_names(str(attributes.get("aliases") or "")):
        try:
            agent.adapters["vhost"].update(identity, {"aliases": ",".join([*kept, alias])})
        except ManagementError:
            continue
        kept.append(alias)
    return identity
