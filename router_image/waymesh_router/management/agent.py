"""The management agent: AMQP Management (draft 9, with the differences of AMQP Mapping 3.3.5) over entity adapters.

A message is parsed to a `Request`, which calls an operation of the management node or of the named entity. Attributes
are checked against the schema, then an adapter carries out the operation. Errors become status codes of the reply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from waymesh_amqp.message import Message
from waymesh_router.management import description
from waymesh_router.management.adapters import Attributes, EntityAdapter
from waymesh_router.management.changes import Changed
from waymesh_router.management.closed_vhosts import deny_all
from waymesh_router.management.errors import (
    BAD_REQUEST,
    CREATED,
    INTERNAL_ERROR,
    NO_CONTENT,
    OK,
    STATUS_TEXT,
    ManagementError,
    bad_request,
    forbidden,
    not_allowed,
    not_found,
    not_implemented,
    unknown,
)
from waymesh_router.management.long_queries import LongQuery
from waymesh_router.management.look_ups import LookUpNeeded
from waymesh_router.management.query import Query, shown, without_secrets
from waymesh_router.management.reader_view import adapters_for_client, adapters_for_reader, log_for_reader
from waymesh_router.management.replies import failed, reply_to
from waymesh_router.management.request import MANAGEMENT_TYPE, Request, read_request
from waymesh_router.management.view import CheckPolicy
from waymesh_schema.dump import schema_dump
from waymesh_schema.entities import EntityType, entity_type
from waymesh_schema.errors import SchemaError
from waymesh_schema.operator_names import of_operator
from waymesh_schema.validate import refuse_host_values, renamed, validate_create, validate_update

Log = Callable[[str, str], None]
"""Called with a level ("debug", "error") and a text."""
RecentLog = Callable[["int | None"], Sequence[Sequence[Any]]]
"""Returns the last `limit` log lines (None: all): [module, level, text, file, line, seconds since 1970]."""

ForTenant = Callable[[str], Mapping[str, EntityAdapter]]
"""Returns the adapters for a tenant, restricted to its own entities, by short type name."""

_NODE = {"name": "self", "identity": "self", "type": MANAGEMENT_TYPE}


def _report_nothing(_request: Request, _kind: str, _identity: str, _attributes: Sequence[str]) -> None:
    return None


def _log_nothing(_level: str, _text: str) -> None:
    return None


def _empty_log(_limit: int | None) -> Sequence[Sequence[Any]]:
    return ()


def _no_policy(_asked: Mapping[str, Any], _tenant: str | None) -> Mapping[str, Any]:
    raise not_implemented("CHECK-POLICY: this agent has no policy")


class Agent:
    """Answers management requests. `adapters` maps short type names to adapters; more may be added to the map later."""

    def __init__(
        self,
        adapters: Mapping[str, EntityAdapter],
        *,
        log: Log = _log_nothing,
        recent_log: RecentLog = _empty_log,
        changed: Changed = _report_nothing,
        for_tenant: ForTenant | None = None,
        check_policy: CheckPolicy = _no_policy,
    ) -> None:
        self.adapters = adapters
        self._for_tenant, self._log = for_tenant, log
        self._changed = changed
        self._recent_log = recent_log
        self._check_policy = check_policy
        self._node_operations: Mapping[str, Callable[[Request, float], Any]] = {
            "READ": lambda _request, _now: dict(_NODE),
            "QUERY": self._query,
            "GET-TYPES": lambda request, _now: description.types(self._described(request)),
            "GET-ATTRIBUTES": lambda request, _now: description.attributes(self._described(request)),
            "GET-OPERATIONS": lambda request, _now: description.operations(self._described(request)),
            "GET-ANNOTATIONS": lambda request, _now: description.annotations_of(self._described(request)),
            "GET-SCHEMA": lambda _request, _now: schema_dump(self._usable()),
            "GET-JSON-SCHEMA": lambda request, _now: description.json_schema(
                self._usable(), request.integer("indent")
            ),
            "GET-MGMT-NODES": self._nodes,
            "DISCOVER-MGMT-NODES": self._nodes,  # the name used in the Dispatch book
            "GET-LOG": self._recent,
            "CHECK-POLICY": lambda request, _now: check_policy(request.body, None),
        }
        self._entity_operations: Mapping[str, Callable[[Request, float], tuple[int, Any]]] = {
            "READ": self._read,
            "UPDATE": self._update,
            "DELETE": self._delete,
            "PUBLISH": self._publish,
        }

    def handle(
        self,
        request: Message,
        now: float,
        host_values: bool = False,
        later: Callable[[LongQuery], None] | None = None,
        connection: str | None = None,
    ) -> Message | None:
        """Answer a request. A request without reply-to is ignored, as in Dispatch, and None is returned.

        `host_values`: the request may name files and environment variables of the router's machine. `later`: called
        with a long query, whose remaining slices the caller must read; the result is None then. `connection`:
        identity of the connection that the request arrived on.
        Raises LookUpNeeded if host names must be looked up; the request must be handled again then.
        """
        if not request.reply_to:
            return None

        def answer() -> Message | None:
            return self._answer(request, read_request(request, host_values, connection), now, later)

        return self._guarded(request, answer)

    def for_tenant(self, tenant: str) -> Agent:
        """An agent restricted to the entities of a tenant."""
        adapters = {} if self._for_tenant is None else self._for_tenant(tenant)
        return Agent(adapters, log=self._log, check_policy=lambda asked, _: self._check_policy(asked, tenant))

    def for_client(self, connection: str) -> Agent:
        """An agent for a client with this connection ("" at another router)."""
        return self._with(adapters_for_client(self.adapters, connection))

    def for_reader(self, connection: str) -> Agent:
        """An agent for a client that may only read, with this connection ("" at another router)."""
        return self._with(adapters_for_reader(self.adapters, connection), log_for_reader(self._recent_log))

    def _with(self, adapters: Mapping[str, EntityAdapter], recent_log: RecentLog | None = None) -> Agent:
        more: Any = {"recent_log": recent_log or self._recent_log, "check_policy": self._check_policy}
        return Agent(adapters, log=self._log, changed=self._changed, **more)

    def continue_query(self, request: Message, query: Query) -> Message | None:
        """Read a slice of a long query; returns the reply, or None if there is more to read."""
        return self._guarded(request, lambda: None if query.step() else reply_to(request, OK, "OK", query.body()))

    def _answer(
        self, request: Message, asked: Request, now: float, later: Callable[[LongQuery], None] | None
    ) -> Message | None:
        status, body = self._perform(asked, now)
        if isinstance(body, Query):
            while body.step():
                if later is not None:
                    later(LongQuery(self, request, body))
                    return None
            body = body.body()
        return reply_to(request, status, STATUS_TEXT[status], body)

    def _guarded(self, request: Message, answer: Callable[[], Message | None]) -> Message | None:
        try:
            return answer()
        except ManagementError as error:
            return self._failure(request, error.status, error.description)
        except SchemaError as error:
            return self._failure(request, BAD_REQUEST, str(error))
        except LookUpNeeded:
            raise
        except Exception as error:  # noqa: BLE001 - the edge: an error in an adapter must not end the router
            return self._failure(request, INTERNAL_ERROR, f"{type(error).__name__}: {error}")

    def configure(
        self, type_name: str, attributes: Mapping[str, Any], host_values: bool = True, connection: str | None = None,
        check: Callable[[EntityType, Mapping[str, Any]], dict[str, Any]] = validate_create,
    ) -> str:  # fmt: skip
        """Check and create an entity, from the configuration or a CREATE request; returns its identity.

        `host_values`: attributes may name files and environment variables of the router's machine. `connection`: value
        of `connectionId`. `check`: validates the attributes. If an error is raised, nothing has changed."""
        kind = entity_type(type_name)
        adapter = self._adapter(kind)
        if kind.refused:
            raise not_implemented(f"{kind.name}: {kind.refused}")
        if adapter is None:
            raise not_implemented(f"{kind.name}: this router has no entities of this type")
        if attributes.get("identity") is not None:
            raise bad_request("'identity' is assigned by the router and cannot be set")
        values = check(kind, {name: value for name, value in attributes.items() if name != "identity"})
        if not host_values:
            refuse_host_values(kind, values)
        if "connectionId" in kind.attributes:
            values["connectionId"] = connection
        return adapter.create(values)

    def _perform(self, request: Request, now: float) -> tuple[int, Any]:
        self._log("debug", f"request {request.operation.lower()} type={request.type} {request.ids or ''}")
        if request.operation == "CREATE":
            return self._create(request, now)
        if request.for_node:
            operation = self._node_operations.get(request.operation)
            if operation is not None:
                return OK, operation(request, now)
            if request.operation in self._entity_operations and request.ids:
                raise not_allowed(f"{request.operation} is not allowed on the management node")
        entity_operation = self._entity_operations.get(request.operation)
        if entity_operation is None:
            raise not_implemented(f"operation '{request.operation}' is not implemented")
        return entity_operation(request, now)

    # Operations on one entity.

    def _create(self, request: Request, now: float) -> tuple[int, Any]:
        attributes = dict(request.body)
        if request.name is not None and attributes.setdefault("name", request.name) != request.name:
            raise bad_request("conflicting values for 'name'")
        type_name = request.type or attributes.get("type")
        if not isinstance(type_name, str):
            raise bad_request("no 'type' given")
        kind = entity_type(type_name)
        if "CREATE" not in kind.operations:
            raise not_allowed(f"{kind.name} cannot be created")
        try:
            identity = self.configure(kind.name, attributes, request.host_values, request.connection)
        except (ManagementError, SchemaError) as error:
            self._deny_clients(request, kind, attributes, error)
            raise
        self._warn_of_old_names(kind, attributes)
        given = {kind.attribute_name(name) or name for name, value in attributes.items() if value is not None}
        self._changed(request, kind.name, identity, sorted(given - {"type"}))
        row = self.adapters[kind.name].find("identity", identity, now) or {**attributes, "identity": identity}
        return CREATED, shown(kind, row)

    def _deny_clients(
        self, request: Request, kind: EntityType, attributes: Mapping[str, Any], error: Exception
    ) -> None:
        """Deny all clients of a refused vhost of the operator; otherwise another vhost could allow them more."""
        if kind.name != "vhost" or not of_operator(attributes):
            return
        identity = deny_all(self, attributes)
        if identity is None:  # another vhost has the name
            self._log("error", f"vhost {attributes['name']} left out: {error}")
            return
        self._log("error", f"vhost {attributes['name']} denies all its clients: {error}")
        self._changed(request, kind.name, identity, ["hostname"])

    def _warn_of_old_names(self, kind: EntityType, attributes: Mapping[str, Any]) -> None:
        for text in renamed(kind, attributes):
            self._log("warning", text)

    def _read(self, request: Request, now: float) -> tuple[int, Any]:
        adapter, row = self._find(request, now)
        return OK, shown(adapter.entity_type, row)

    def _update(self, request: Request, now: float) -> tuple[int, Any]:
        adapter, row = self._find(request, now)
        kind = adapter.entity_type
        if "UPDATE" not in kind.operations:
            raise not_allowed(f"{kind.name} cannot be updated")
        current = without_secrets(kind, row)
        # Clients send back all attributes that they have read: one with the same value is neither a change nor refused.
        values = validate_update(kind, request.body, current)
        changed = {name: value for name, value in values.items() if current.get(name) != value}
        if not request.host_values:
            refuse_host_values(kind, changed)
        if changed:
            adapter.update(row["identity"], changed)
            self._changed(request, kind.name, row["identity"], sorted(changed))
        self._warn_of_old_names(kind, request.body)
        # A connection whose adminStatus became "deleted" may be gone by now.
        after = adapter.find("identity", row["identity"], now) or {**row, **changed}
        return OK, shown(kind, after)

    def _delete(self, request: Request, now: float) -> tuple[int, Any]:
        if request.type is not None and entity_type(request.type).name == "connection":
            raise forbidden("Forbidden: close a connection by an UPDATE of its adminStatus to deleted")
        adapter, row = self._find(request, now)
        if "DELETE" not in adapter.entity_type.operations:
            raise not_allowed(f"{adapter.entity_type.name} cannot be deleted")
        adapter.delete(row["identity"])
        self._changed(request, adapter.entity_type.name, row["identity"], ())
        return NO_CONTENT, {}

    def _publish(self, request: Request, now: float) -> tuple[int, Any]:
        adapter, row = self._find(request, now)
        adapter.publish()
        return OK, without_secrets(adapter.entity_type, row)

    def _find(self, request: Request, now: float) -> tuple[EntityAdapter, Attributes]:
        """The one entity that the request names."""
        if not request.ids:
            return self._find_singleton(request, now)
        kind = None if request.type is None else entity_type(request.type)
        key, value = next(iter(request.ids.items()))
        found = [
            (adapter, row)
            for adapter in self._candidates(kind, request.identity)
            if (row := adapter.find(key, value, now)) is not None
        ]
        if not found:
            text = f"no entity with {_text_of(request.ids)}" + (f" of type {kind.name}" if kind else "")
            raise unknown(text, bad=kind is not None and kind.name == "connection" and request.operation == "UPDATE")
        if len(found) > 1:
            raise bad_request(f"several entities with {_text_of(request.ids)}: give a type")
        adapter, row = found[0]
        if any(row.get(name) != wanted for name, wanted in request.ids.items()):
            raise bad_request(f"conflicting {_text_of(request.ids)}")
        return adapter, row

    def _find_singleton(self, request: Request, now: float) -> tuple[EntityAdapter, Attributes]:
        if request.type is None:
            raise bad_request("no name or identity given")
        kind = entity_type(request.type)
        adapters = self._of_type(kind)
        if not adapters:
            raise _no_entities(kind)
        adapter = adapters[0]
        if not kind.singleton or adapter.entity_type is not kind:
            raise bad_request(f"{request.type}: no name or identity given")
        row = next(iter(adapter.rows(now)), None)
        if row is None:
            raise not_found(f"there is no {request.type}")
        return adapter, row

    def _candidates(self, kind: EntityType | None, identity: str | None) -> Iterable[EntityAdapter]:
        if kind is not None:
            return self._of_type(kind)
        if identity is not None:
            adapter = self.adapters.get(identity.partition("/")[0])
            if adapter is not None:
                return (adapter,)
        return self.adapters.values()

    def _of_type(self, kind: EntityType) -> list[EntityAdapter]:
        """Adapters of the type or of types that extend it."""
        return [adapter for adapter in self.adapters.values() if adapter.entity_type.has_base(kind.long_name)]

    def _adapter(self, kind: EntityType) -> EntityAdapter | None:
        return self.adapters.get(kind.name)

    # Operations on the management node.

    def _query(self, request: Request, now: float) -> Query:
        kind = None if request.entity_type is None else entity_type(request.entity_type)
        adapters = self._queried(request) if kind is None else self._of_type(kind)
        return Query(request, kind, adapters, now)

    def _queried(self, request: Request) -> list[EntityAdapter]:
        """What a QUERY without a type reads; if it asks for everything, neither links nor addresses, as in Dispatch."""
        chosen = request.body.get("attributeNames") or request.properties.get("where")
        left_out = () if chosen else ("router.link", "router.address")
        return [adapter for name, adapter in self.adapters.items() if name not in left_out]

    def _usable(self) -> list[EntityType]:
        """The types of this router's entities, and their base types."""
        return description.with_bases([adapter.entity_type for adapter in self.adapters.values()])

    def _described(self, request: Request) -> list[EntityType]:
        """The types that a GET-… request covers: the given type and all that extend it, or all types."""
        usable = self._usable()
        if request.entity_type is None:
            return usable
        kind = entity_type(request.entity_type)
        if kind not in usable:
            raise _no_entities(kind)
        return [one for one in usable if one.has_base(kind.long_name)]

    def _nodes(self, _request: Request, now: float) -> Any:
        adapter = self.adapters.get("router.node")
        if adapter is None:
            return []
        return [f"amqp:/_topo/0/{name}/$management" for (name,) in adapter.select(["id"], now, 0, None)]

    def _recent(self, request: Request, _now: float) -> Any:
        limit = request.integer("limit") or None  # 0 means all, as for count and in Dispatch
        return [list(line) for line in self._recent_log(limit)]

    def _failure(self, request: Message, status: int, text: str) -> Message:
        if status == INTERNAL_ERROR:  # the service logs other errors, with the client
            self._log("error", f"request failed: {status} {text}")
        return failed(request, status, text)


def _no_entities(kind: EntityType) -> ManagementError:
    return not_found(f"this router has no entities of type {kind.name}" + (f": {kind.refused}" if kind.refused else ""))


def _text_of(ids: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in ids.items())
