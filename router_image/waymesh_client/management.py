"""Management of routers from the outside: AMQP Management (draft 9) over `$management`.

```python
with ManagementClient("amqp://127.0.0.1:5672") as client:
    for link in client.query("router.link", ["identity", "unsettledCount"]):
        ...
```
Type names may be short (`listener`) or long (`org.apache.qpid.dispatch.listener`) against our routers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import proton

from waymesh_client.channel import Channel, Endpoint, Sasl, Tls
from waymesh_client.errors import BadReply, ManagementError

PAGE = 1000
"""Rows requested by one QUERY, so that neither side builds one huge message."""

_LONG_PREFIX = "org.apache.qpid.dispatch."
_NODE = {"type": "org.amqp.management", "name": "self"}


class ManagementClient:
    """Blocking client of the management agent of a router, or of a router reached through it (`router`, `edge_router`,
    `at`).

    All methods raise `ClientError`: `ConnectionFailed`, `UnusableFile`, `NoRoute`, `RequestTimeout`, `BadReply`,
    `ManagementError`.
    """

    def __init__(
        self,
        url: str,
        *,
        router: str | None = None,
        edge_router: str | None = None,
        timeout_s: float = 10.0,
        tls: Tls | None = None,
        sasl: Sasl | None = None,
    ) -> None:
        endpoint = Endpoint.parse(url)
        self._channel = Channel(endpoint, timeout_s, tls, sasl or Sasl())
        self._address = endpoint.path or management_address(router, edge_router)

    def __enter__(self) -> ManagementClient:
        self._channel.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, which clients created by `at` share."""
        self._channel.close()

    @property
    def answered_at(self) -> float:
        """When the last reply came, one with a refusal, too; on the monotonic clock, -inf before the first."""
        return self._channel.answered_at

    def renew_after(self, unused_s: float) -> None:
        """Open the connection anew before a request if it was not used for so many seconds: no heartbeats are sent
        between requests, so that the router may have closed it."""
        self._channel.unused_s = unused_s

    def at(self, router: str) -> ManagementClient:
        """A client of another router of the network, over the same connection."""
        other = copy.copy(self)
        other._address = management_address(router)
        return other

    def query(
        self,
        entity_type: str | None = None,
        attributes: Sequence[str] = (),
        *,
        limit: int | None = None,
        where: str | None = None,
        order_by: str | None = None,
    ) -> list[dict[str, Any]]:
        """Entities of a type (None: of all types) with the named attributes (default: all), requested in pages.

        `where` and `order_by` are sent as the properties `where` and `orderBy` of the QUERY (docs/management.md).
        """
        pages = self.pages(entity_type, attributes, limit=limit, where=where, order_by=order_by)
        rows = [row for page in pages for row in page]
        return rows if limit is None else rows[:limit]

    def pages(
        self,
        entity_type: str | None = None,
        attributes: Sequence[str] = (),
        *,
        limit: int | None = None,
        where: str | None = None,
        order_by: str | None = None,
    ) -> Iterator[list[dict[str, Any]]]:
        """What `query` returns, page by page: each is requested when the one before was taken."""
        more = {name: text for name, text in (("where", where), ("orderBy", order_by)) if text}
        read = 0
        previous: list[Any] = []
        added = ["identity"] if attributes and "identity" not in attributes else []  # so that no two pages are equal
        while limit is None or read < limit:
            count = PAGE if limit is None else min(PAGE, limit - read)
            names, page = self._page(entity_type, [*attributes, *added], read, count, more)
            if page == previous:  # a router without paging returns the same rows again
                break
            read += len(page)
            yield [{k: v for k, v in zip(names, values) if k not in added} for values in page]
            if len(page) != count:
                break
            previous = page

    def read(
        self, entity_type: str | None = None, *, name: str | None = None, identity: str | None = None
    ) -> dict[str, Any]:
        """Attributes of one entity, given by name or identity."""
        return _map(self.operation("READ", type=long_type(entity_type), name=name, identity=identity))

    def create(self, entity_type: str, attributes: Mapping[str, Any], *, name: str | None = None) -> dict[str, Any]:
        """Create an entity; returns its attributes."""
        kind = long_type(entity_type)
        body = {**attributes, "type": kind}
        return _map(self.operation("CREATE", body, type=kind, name=name))

    def update(
        self,
        attributes: Mapping[str, Any],
        entity_type: str | None = None,
        *,
        name: str | None = None,
        identity: str | None = None,
    ) -> dict[str, Any]:
        """Change attributes of an entity; returns all its attributes."""
        reply = self.operation("UPDATE", dict(attributes), type=long_type(entity_type), name=name, identity=identity)
        return _map(reply)

    def delete(self, entity_type: str | None = None, *, name: str | None = None, identity: str | None = None) -> None:
        """Delete an entity."""
        self.operation("DELETE", type=long_type(entity_type), name=name, identity=identity)

    def nodes(self) -> list[str]:
        """Management addresses of all routers of the network, including this one; empty for a standalone router."""
        reply = self.node_operation("GET-MGMT-NODES")
        if not isinstance(reply, list):
            raise BadReply("the list of management nodes is not a list")
        return [str(node) for node in reply]

    def node_operation(self, operation: str, /, **properties: Any) -> Any:
        """Call an operation of the management node itself (GET-TYPES, GET-LOG …); returns the body of the reply."""
        return self.operation(operation, **{**_NODE, **properties})

    def operation(self, operation: str, body: Any = None, /, **properties: Any) -> Any:
        """Call any operation with application properties of any names, without those that are None. Returns the body of
        the reply."""
        sent = {name: value for name, value in properties.items() if value is not None}
        message = proton.Message(properties={**sent, "operation": operation}, body={} if body is None else body)
        return _body(self._channel.call(self._address, message))

    def _page(
        self, entity_type: str | None, attributes: Sequence[str], offset: int, count: int, more: Mapping[str, str]
    ) -> tuple[list[str], list[list[Any]]]:
        reply = self.operation(
            "QUERY",
            {"attributeNames": list(attributes)},
            **_NODE,
            entityType=long_type(entity_type),
            offset=offset,
            count=count,
            **more,
        )
        names, results = _map(reply).get("attributeNames"), reply.get("results")
        if not isinstance(names, list) or not isinstance(results, list):
            raise BadReply("a reply to QUERY has no attributeNames or results")
        return names, results


def management_address(router: str | None, edge_router: str | None = None) -> str:
    """Address of a router's management agent; None: of the connected router (AMQP Mapping 3.3.4.2)."""
    if edge_router is not None:
        return f"_edge/{edge_router}/$management"
    return "$management" if router is None else f"_topo/0/{router}/$management"


def long_type(entity_type: str | None) -> str | None:
    """The long name of an entity type, which every version of the agent understands."""
    if not entity_type or entity_type.startswith("org."):
        return entity_type or None
    if entity_type in ("link", "node"):
        return f"{_LONG_PREFIX}router.{entity_type}"
    if entity_type in ("address", "autoLink", "linkRoute"):
        return f"{_LONG_PREFIX}router.config.{entity_type}"
    return _LONG_PREFIX + entity_type


def _body(reply: proton.Message) -> Any:
    sent: dict[str, Any] | None = reply.properties
    properties = {} if sent is None else sent
    status = properties.get("statusCode")
    if not isinstance(status, int):
        raise BadReply("the reply has no statusCode")
    if not 200 <= status <= 299:
        raise ManagementError(int(status), str(properties.get("statusDescription") or "no description"))
    return _plain(reply.body)


def _map(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadReply("the body of the reply is not a map")
    return value


def _plain(value: Any) -> Any:
    """The value with the built-in types of Python in place of proton's types for integers and symbols."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return int(value)
    return str(value)
