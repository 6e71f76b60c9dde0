"""Creates vhosts that deny all clients, in place of vhosts that the router cannot enforce.

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

def deny_all(agent: Agent, attributes: Mapping[str, Any]) -> str | None:
    """Create a vhost without groups, for the host name and the aliases in the attributes that no other vhost uses.

    The first of these names becomes its host name, the others its aliases. Returns its identity; None if all names are
    in use, or another vhost has the `name`.
    """
    names = [str(attributes.get("hostname") or ""), *alias_names(str(attributes.get("aliases") or ""))]
    for at, name in enumerate(names):
        if not name:
            continue
        try:
            identity = agent.configure("vhost", {"name": attributes.get("name"), "hostname": name})
        except (ManagementError, SchemaError):
            continue
        _add_aliases(agent, identity, names[at + 1 :])
        return identity
    return None


def _add_aliases(agent: Agent, identity: str, aliases: list[str]) -> None:
    kept: list[str] = []
    for alias in aliases:
        try:
            agent.adapters["vhost"].update(identity, {"aliases": ",".join([*kept, alias])})
        except ManagementError:
            continue
        kept.append(alias)
