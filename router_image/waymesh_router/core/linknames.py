"""Names of routed links on their way to the container.

To a container all clients behind a router are one peer, so that what tells them apart has to be in the names of their
links: the client's container-id. It is always the same for a client, so that durable subscriptions are found again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach, Terminus
    from waymesh_router.core.model import RouterConnection

GLOBAL = "global"
"""Capability of a source: the subscription belongs to no client. Containers take its name up to the first bar."""


def onward_name(conn: RouterConnection, onward: RouterConnection, attach: Attach) -> str:
    """The name of a link that `conn` attached, on the connection on which it is passed on. Spec: 2.6.1.

    The first router makes the name; the others keep it as long as nobody else has it.
    """
    name = attach.name
    if conn.role != "inter-router":
        container = "" if conn.remote is None else conn.remote.container_id
        name = client_name(name, container, attach.source)
    is_sender = not attach.role
    holder = onward.names.get((name, is_sender))
    if holder is None:
        return name
    if attach.source is not None and attach.source.durable:
        holder.detach_with(None, False)  # the client is back before its old connection was found dead
        if (name, is_sender) not in onward.names:
            return name
    number = 2
    while (f"{name}#{number}", is_sender) in onward.names:
        number += 1
    return f"{name}#{number}"


def client_name(name: str, container: str, source: Terminus | None) -> str:
    """The name of a client's link with the client in it. Of a global subscription the part up to the bar stays."""
    container = container.replace("|", "_")
    if source is not None and GLOBAL in (str(c) for c in source.capabilities or ()):
        head, bar, rest = name.partition("|")
        return f"{head}|{rest}@{container}" if bar else f"{name}|{container}"
    return f"{container}.{name}"
