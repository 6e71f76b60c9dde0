"""Management requests to a running router: read its entities and views, and apply one action."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from waymesh_client.errors import ClientError, ManagementError
from waymesh_operator.errors import LiveError
from waymesh_operator.router_entities.actions import (
    CreateEntity,
    DeleteEntity,
    EntityAction,
    QuiesceEntity,
    UpdateEntity,
)
from waymesh_operator.router_entities.names import LOG, MANAGED_TYPES, QUIESCING, ROUTER, Entity

from .client import LiveClient
from .observed import VhostCounts

NOT_FOUND, NOT_IMPLEMENTED = 404, 501


def read_entities(client: LiveClient, types: Iterable[str] = MANAGED_TYPES) -> tuple[Entity, ...]:
    """Read all entities of these types, owned by us or not; none of a type unknown to the router. Raises LiveError."""
    entities = []
    for kind in types:
        try:
            rows = client.query(kind)
        except ManagementError as error:
            if error.status != NOT_IMPLEMENTED:
                raise LiveError(f"{kind}: {error}", refused=str(error)) from error
            continue
        except ClientError as error:
            raise LiveError(str(error)) from error
        entities += [_entity(kind, row) for row in rows]
    return tuple(entities)


def apply_entity(client: LiveClient, action: EntityAction) -> Entity | None:
    """Apply one action; returns the resulting entity, None if it no longer exists.

    Raises LiveError with the router's reason; deleting a missing entity succeeds. An entity to change may have finished
    quiescing and removed itself since it was read: then it no longer exists, and the next plan creates it again.
    """
    entity = action.entity
    try:
        match action:
            case CreateEntity():
                given = {name: value for name, value in entity.attributes.items() if value is not None}
                return _entity(
                    entity.type, {"name": entity.name, **client.create(entity.type, given, name=entity.name)}
                )
            case UpdateEntity():
                return _updated(client, entity, {name: new for name, (_, new) in action.changes.items()})
            case QuiesceEntity():
                return _updated(client, entity, {QUIESCING: True})
            case DeleteEntity():
                client.delete(entity.type, name=entity.name)
    except ManagementError as error:
        if isinstance(action, CreateEntity) or error.status != NOT_FOUND:
            raise LiveError(f"{action.describe()}: {error}", refused=str(error)) from error
    except ClientError as error:
        raise LiveError(f"{action.describe()}: {error}") from error
    return None


def _updated(client: LiveClient, entity: Entity, wanted: Mapping[str, Any]) -> Entity:
    name = str(entity.attributes.get("name") or entity.name)
    return _entity(entity.type, {"name": name, **client.update(wanted, entity.type, name=name)})


def set_client_share(client: LiveClient, name: str, share: int, older_s: int) -> None:
    """Let a router close connections of clients above its share. Raises LiveError."""
    _update(client, name, {"clientShare": share, "clientShareSeconds": older_s}, "clientShare")


def set_draining(client: LiveClient, name: str, timeout_s: int | None) -> None:
    """Make the router with this name drain within a time, or serve again for None. Raises LiveError."""
    changes: dict[str, Any] = {"draining": timeout_s is not None}
    if timeout_s is not None:
        changes["drainTimeoutSeconds"] = timeout_s
    _update(client, name, changes, "draining")


def _update(client: LiveClient, name: str, changes: Mapping[str, Any], what: str) -> None:
    try:
        client.update(changes, ROUTER, name=name)
    except ManagementError as error:
        raise LiveError(f"{what}: {error}", refused=str(error)) from error
    except ClientError as error:
        raise LiveError(str(error)) from error


def _entity(kind: str, row: Mapping[str, Any]) -> Entity:
    # Some versions name a log module by its name alone, others by type and name.
    name = f"log/{row.get('module')}" if kind == LOG else str(row.get("name") or row.get("identity"))
    return Entity(kind, name, row)


_DENIALS = ("sessionDenied", "linksDenied", "maxMessageSizeDenied", "messagesDenied")


def read_vhosts(client: LiveClient) -> VhostCounts:
    """Read a router's counters of its vhosts. Raises LiveError."""
    found = VhostCounts()
    for row in _query(client, "vhostStats", ("hostname", "connectionsCurrent", "connectionsDenied", "dryRunDenials")):
        found.connections[str(row.get("hostname"))] += int(row.get("connectionsCurrent") or 0)
        found.refused[str(row.get("hostname"))] += int(row.get("connectionsDenied") or 0)
        found.dry_run[str(row.get("hostname"))] += int(row.get("dryRunDenials") or 0)
    for row in _query(client, "vhostUserGroupStats", ("hostname", "groupName", *_DENIALS)):
        key = str(row.get("hostname")), str(row.get("groupName"))
        found.denied[key] += sum(int(row.get(name) or 0) for name in _DENIALS)
    return found


MOBILE = "M"


@dataclass(frozen=True, slots=True)
class RouterView:
    """One router's view: known routers, neighbours, and clients (without this connection)."""

    known: frozenset[str] = frozenset()
    neighbours: tuple[str, ...] = ()
    connections: int = 0
    links: int = 0
    unsettled: int = 0
    containers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AddressView:
    """A mobile address, summed over all routers asked. `consumers` and `producers` count attached links."""

    address: str
    distribution: str
    consumers: int = 0
    producers: int = 0
    ingress: int = 0
    egress: int = 0


def read_router(client: LiveClient, own_id: str) -> RouterView:
    """The view of one router. Raises LiveError."""
    known, neighbours = read_known(client, own_id)
    clients = _client_links(client)
    connections = _query(client, "connection", ("role", "dir", "container"))
    return RouterView(
        known=known,
        neighbours=neighbours,
        connections=max(0, sum(connection.get("role") != "inter-router" for connection in connections) - 1),
        links=len(clients),
        unsettled=sum(_pending(link) for link in clients),
        containers=_containers(connections),
    )


def read_containers(client: LiveClient) -> frozenset[str]:
    """The container-ids of the brokers that have connected to a router. Raises LiveError."""
    return _containers(_query(client, "connection", ("role", "dir", "container")))


def _containers(connections: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    brokers = (row for row in connections if row.get("role") == "route-container" and row.get("dir") == "in")
    return frozenset(str(row.get("container") or "") for row in brokers)


def read_known(client: LiveClient, own_id: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Read the other routers that a router knows, and its neighbours. Raises LiveError."""
    nodes = _query(client, "router.node", ("id", "nextHop", "linkState"))
    others = [node for node in nodes if node.get("id") != own_id]
    neighbours = sorted(str(node["id"]) for node in others if node.get("nextHop") is None)
    return frozenset(str(node["id"]) for node in others), tuple(neighbours)


def read_consumers(client: LiveClient) -> dict[str, int]:
    """The number of consumers on this router, of each mobile address that has any. Raises LiveError."""
    found: dict[str, int] = {}
    for row in _query(client, "router.address", ("name", "inProcess", "subscriberCount")):
        name, count = _mobile(str(row.get("name") or "")), int(row.get("subscriberCount") or 0)
        if name is not None and count and not row.get("inProcess"):
            found[name] = found.get(name, 0) + count
    return found


def read_addresses(clients: Iterable[LiveClient]) -> tuple[AddressView, ...]:
    """The mobile addresses that clients use, over all routers, by name. Raises LiveError."""
    sums: dict[str, dict[str, int]] = {}
    distributions: dict[str, str] = {}
    wanted = ("name", "distribution", "inProcess", "subscriberCount", "deliveriesIngress", "deliveriesEgress")
    for client in clients:
        for row in _query(client, "router.address", wanted):
            name = _mobile(str(row.get("name") or ""))
            if name is None or row.get("inProcess"):
                continue
            distributions[name] = str(row.get("distribution") or "")
            total = sums.setdefault(name, {"consumers": 0, "ingress": 0, "egress": 0, "producers": 0})
            total["consumers"] += int(row.get("subscriberCount") or 0)
            total["ingress"] += int(row.get("deliveriesIngress") or 0)
            total["egress"] += int(row.get("deliveriesEgress") or 0)
        for link in _query(client, "router.link", ("linkType", "linkDir", "owningAddr")):
            name = _mobile(str(link.get("owningAddr") or ""))
            if name in sums and link.get("linkType") == "endpoint" and link.get("linkDir") == "in":
                sums[name]["producers"] += 1
    return tuple(AddressView(name, distributions[name], **total) for name, total in sorted(sums.items()))


def _client_links(client: LiveClient) -> list[dict[str, Any]]:
    """Return links of clients: for mobile addresses or without address; excludes links to management."""
    links = _query(client, "router.link", ("linkType", "owningAddr", "unsettledCount", "undeliveredCount"))
    keys = [(link, str(link.get("owningAddr") or MOBILE)) for link in links if link.get("linkType") == "endpoint"]
    return [link for link, key in keys if key.startswith(MOBILE) and not key.endswith("$management")]


def _mobile(key: str) -> str | None:
    """Return the address of a mobile address key (`M0orders` → `orders`); None for keys of other classes."""
    return key[2:] if key.startswith(MOBILE) and len(key) > 2 else None


def _pending(link: dict[str, Any]) -> int:
    return int(link.get("unsettledCount") or 0) + int(link.get("undeliveredCount") or 0)


def _query(client: LiveClient, kind: str, attributes: tuple[str, ...]) -> list[dict[str, Any]]:
    try:
        return client.query(kind, attributes)
    except ClientError as error:
        raise LiveError(str(error)) from error
