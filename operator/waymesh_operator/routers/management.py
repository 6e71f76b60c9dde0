"""AMQP management of running routers. Clients: the interface, plain connections, and mutual TLS to routers in pods.
Requests: read entities and views, and apply one action."""

from __future__ import annotations

import hashlib
import shutil
import socket
import ssl
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from waymesh_client.channel import Sasl, Tls
from waymesh_client.errors import ClientError, ManagementError
from waymesh_operator.errors import LiveError
from waymesh_operator.router_entities.actions import (
    CreateEntity,
    DeleteEntity,
    EntityAction,
    QuiesceEntity,
    UpdateEntity,
)
from waymesh_operator.router_entities.names import ADDRESS, LOG, MANAGED_TYPES, QUIESCING, ROUTER, Entity
from waymesh_operator.tls.certificates import Credential
from waymesh_operator.tls.rollover import TlsView
from waymesh_schema.entities import entity_type

from .observed import VhostCounts


class LiveClient(Protocol):
    """The interface of a management client. Every method raises `waymesh_client.errors.ClientError`."""

    def query(self, entity_type: str | None = None, attributes: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Read all entities of a type, with the named attributes (all if none is named)."""

    def pages(self, entity_type: str | None = None) -> Iterator[list[dict[str, Any]]]:
        """What `query` returns with all attributes, page by page."""

    def create(self, entity_type: str, attributes: Mapping[str, Any], *, name: str | None = None) -> dict[str, Any]:
        """Create an entity."""

    def update(
        self, attributes: Mapping[str, Any], entity_type: str | None = None, *, name: str | None = None
    ) -> dict[str, Any]:
        """Change attributes of an entity."""

    def delete(self, entity_type: str | None = None, *, name: str | None = None) -> None:
        """Remove an entity."""

    def close(self) -> None:
        """Close the connection; it is opened again when needed."""


class PodClient(LiveClient, Protocol):
    """A client of a router in a pod."""

    @property
    def answered_at(self) -> float:
        """When the router replied last, on the monotonic clock; -inf if it has not."""


def connect(url: str, timeout_s: float = 2.0) -> PodClient:
    """Return a client of the router at this URL. It connects at the first request."""
    from waymesh_client.management import ManagementClient  # proton is slow to import: only when it is needed

    return ManagementClient(url, timeout_s=timeout_s)


MANAGEMENT_PORT = 55672
HANDSHAKE_S = 3.0
UNUSED_S = 4.0
"""A connection that was not used for so long is opened anew. No heartbeats are sent between requests, and the router
ends a connection without them after 16 s, while a plan for thousands of resources takes longer on a busy machine."""
_SASL_HEADER = b"AMQP\x03\x01\x00\x00"


class KeyFolder:
    """Certificates as files, which proton and ssl require; readable by this user only, and removed by `close`. Those of
    one mesh are in one folder."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="waymesh-"))

    def tls(self, credential: Credential, authorities: bytes, server_name: str) -> Tls:
        """Return files for this certificate and these authorities; the same contents give the same files."""
        digest = hashlib.sha256(credential.certificate + credential.key + authorities).hexdigest()[:20]
        contents = {"crt": credential.certificate, "key": credential.key, "ca": authorities}
        folder = self.folder / server_name.partition(".")[2]
        folder.mkdir(mode=0o700, exist_ok=True)
        paths = {part: folder / f"{digest}.{part}" for part in contents}
        for part, path in paths.items():
            if not path.exists():
                path.touch(mode=0o600)
                path.write_bytes(contents[part])
        return Tls(ca=str(paths["ca"]), certificate=str(paths["crt"]), key=str(paths["key"]), server_name=server_name)

    def forget(self, domain: str) -> None:
        """Remove those of a mesh; `domain`: the names of its routers without the first label."""
        shutil.rmtree(self.folder / domain, ignore_errors=True)

    def close(self) -> None:
        """Remove all of them."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Reach(Protocol):
    """Connects to routers in pods, by the address of the pod; tests replace it."""

    def client(self, address: str, tls: Tls) -> PodClient:
        """Return a client of the router at this address. It connects at the first request."""

    def tls_view(self, address: str, tls: Tls, probe: Tls | None) -> TlsView:
        """Return the result of a TLS handshake; an empty view if it fails. With `probe`, also whether that is
        accepted."""


@dataclass(frozen=True, slots=True)
class SecureReach:
    """Production implementation: mutual TLS on the routers' management port."""

    port: int = MANAGEMENT_PORT
    timeout_s: float = 5.0

    def client(self, address: str, tls: Tls) -> PodClient:
        """See Reach."""
        from waymesh_client.management import ManagementClient  # proton is slow to import: only when it is needed

        where = f"[{address}]" if ":" in address else address
        client = ManagementClient(
            f"amqps://{where}:{self.port}", timeout_s=self.timeout_s, tls=tls, sasl=Sasl(mechanisms="EXTERNAL")
        )
        client.renew_after(UNUSED_S)
        return client

    def tls_view(self, address: str, tls: Tls, probe: Tls | None) -> TlsView:
        """See Reach."""
        place = (address, self.port)
        try:
            shown = x509.load_der_x509_certificate(_handshake(place, tls))
        except (OSError, ValueError):
            return TlsView()
        digest = shown.fingerprint(hashes.SHA256()).hex()
        return TlsView(digest, shown.not_valid_after_utc, probe is not None and _takes(place, probe))


def _takes(place: tuple[str, int], probe: Tls) -> bool:
    try:
        _handshake(place, probe)
    except OSError:
        return False
    return True


def _handshake(place: tuple[str, int], tls: Tls) -> bytes:
    """Return the router's certificate as DER. Raises OSError if either side does not trust the other.

    In TLS 1.3, the client's handshake ends before the server verifies the client: only data from it proves acceptance.
    """
    context = ssl.create_default_context(cafile=tls.ca)
    context.load_cert_chain(str(tls.certificate), tls.key)
    with (
        socket.create_connection(place, HANDSHAKE_S) as raw,
        context.wrap_socket(raw, server_hostname=tls.server_name) as stream,
    ):
        stream.sendall(_SASL_HEADER)
        if not stream.recv(len(_SASL_HEADER)):
            raise ConnectionError("the router closed the connection")
        return stream.getpeercert(binary_form=True) or b""


NOT_FOUND, NOT_IMPLEMENTED = 404, 501


def read_entities(client: LiveClient, types: Iterable[str] = MANAGED_TYPES) -> tuple[Entity, ...]:
    """Read all entities of these types, owned by us or not; none of a type unknown to the router. Raises LiveError."""
    entities: list[Entity] = []
    for kind in types:
        try:
            for page in client.pages(kind):  # rows take more memory than the entities of them
                entities += [_entity(kind, row) for row in page]
        except ManagementError as error:
            if error.status != NOT_IMPLEMENTED:
                raise LiveError(f"{kind}: {error}", refused=str(error)) from error
            continue
        except ClientError as error:
            raise LiveError(str(error)) from error
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
    # Thousands of entities share the names of their attributes, two routers also the values.
    shared = {sys.intern(key): sys.intern(value) if type(value) is str else value for key, value in row.items()}
    if kind == ADDRESS:
        shared = {key: value for key, value in shared.items() if _is_kept(key, value)}
    return Entity(kind, sys.intern(name), shared)


_DEFAULTS = {name: one.default for name, one in entity_type(ADDRESS).attributes.items() if name != "distribution"}


def _is_kept(name: str, value: Any) -> bool:
    """Whether an attribute of an address is kept: not a default, which counts where the attribute is missing, and not
    name and type, which the entity has. So little is kept of each of thousands of addresses."""
    return value is not None and value != _DEFAULTS.get(name) and name not in ("identity", "type", "name")


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
