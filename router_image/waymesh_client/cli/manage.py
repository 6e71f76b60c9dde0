"""Operations of `waymesh manage` on a running router. Their arguments are qdmanage's (Dispatch book 3.2.2)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from waymesh_client.errors import ClientError
from waymesh_client.management import ManagementClient, long_type
from waymesh_schema.entities import entity_type
from waymesh_schema.errors import SchemaError
from waymesh_schema.text import one_line

_OF_ENTITIES = ("create", "read", "update", "delete")
_BULK = ("create", "update", "delete")
"""Operations that take several entities from standard input."""
_IDS = ("type", "name", "identity")
_Result = TypeVar("_Result")
Operation = Callable[[ManagementClient, "ManageRequest"], None]


class UsageError(Exception):
    """Invalid arguments or standard input. The exit code is 2."""


@dataclass(frozen=True, slots=True)
class ManageRequest:
    """One operation. `words` are the arguments without `=`; `attributes` has one map per entity."""

    operation: str
    words: list[str] = field(default_factory=list)
    attributes: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    bulk: bool = False
    """Standard input was a list, so the result is a list too."""
    type: str | None = None
    name: str | None = None
    identity: str | None = None
    body: Any = None
    properties: dict[str, Any] = field(default_factory=dict)
    indent: int = 2

    def ids(self, attributes: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Identifying properties, from the options or else the attributes. With an identity, the name is omitted."""
        given = attributes or {}
        identity = self.identity or given.get("identity")
        name = self.name or given.get("name")
        return {"identity": identity} if identity else {"name": name}

    def kind(self, attributes: Mapping[str, Any] | None = None) -> str | None:
        """Entity type from the option, else from the attributes."""
        return self.type or (attributes or {}).get("type")


def parse(request: ManageRequest, arguments: list[str], stdin: bool) -> ManageRequest:
    """Add the arguments, and the attributes on standard input if wanted, to a request. Raises UsageError."""
    request = _with_identity(replace(request, words=[word for word in arguments if "=" not in word]))
    pairs = [word.partition("=") for word in arguments if "=" in word]
    _refuse_unused(request, [name for name, _, _ in pairs], stdin)
    kind = request.type or next((value for name, _, value in pairs if name == "type"), None)
    given = {name: _value(kind, name, value) for name, _, value in pairs}
    data = _read_stdin() if stdin else {}
    bulk = isinstance(data, list)
    maps = data if isinstance(data, list) else [data]
    if bulk and request.operation.lower() not in _BULK:
        raise UsageError(f"{request.operation} takes one map on standard input, not a list")
    if not all(isinstance(one, dict) for one in maps):
        raise UsageError("standard input must be a JSON map or a list of maps")
    return replace(
        request,
        attributes=[{**one, **given} for one in maps],
        bulk=bulk,
    )


def run(client: ManagementClient, request: ManageRequest) -> None:
    """Send the operation and print the result. Raises ClientError."""
    OPERATIONS.get(request.operation.lower(), _custom)(client, request)


def _with_identity(request: ManageRequest) -> ManageRequest:
    """In `update log/DEFAULT enable=debug+`, the first word after read, update or delete is an identity."""
    operation = request.operation.lower()
    if operation in ("read", "update", "delete") and request.words and not (request.identity or request.name):
        request = replace(request, identity=request.words[0], words=request.words[1:])
    if request.words and operation in ("create", "read", "update", "delete", "get-mgmt-nodes", "get-schema"):
        raise UsageError(f"unexpected arguments: {' '.join(request.words)}")
    return request


def _refuse_unused(request: ManageRequest, attributes: list[str], stdin: bool) -> None:
    """Raises UsageError for arguments that the operation would ignore. Operations not in OPERATIONS use all."""
    operation = request.operation.lower()
    if operation not in OPERATIONS:
        return
    given = {"--body": request.body is not None, "--properties": bool(request.properties)}
    if operation not in _OF_ENTITIES:
        given |= {"--name": request.name is not None, "--identity": request.identity is not None, "--stdin": stdin}
    elif operation == "create":
        given["--identity"] = request.identity is not None
    if operation in ("get-mgmt-nodes", "get-log"):
        given["--type"] = request.type is not None
    given["--name with --identity"] = bool(request.name and request.identity)
    if operation in ("read", "delete"):
        given |= {f"{name}=": name not in _IDS for name in attributes}
    elif operation not in ("create", "update", "get-log"):
        given |= dict.fromkeys((f"{name}=" for name in attributes), True)
    if operation == "get-log" or (operation.startswith("get-") and len(request.words) > (request.type is None)):
        given |= dict.fromkeys(request.words, True)
    unused = [name for name, here in given.items() if here]
    if unused:
        raise UsageError(f"{request.operation} does not use {', '.join(unused)}")


def _read_stdin() -> Any:
    try:
        return json.load(sys.stdin)
    except ValueError as error:
        raise UsageError(f"standard input is not JSON: {error}") from None


def _value(kind: str | None, name: str, text: str) -> Any:
    """Convert an argument to the type that the schema gives the attribute."""
    if text in ("true", "false"):
        return text == "true"
    try:
        attribute = entity_type(kind).attributes.get(name) if kind else None
    except SchemaError:
        attribute = None
    if attribute is not None and attribute.type == "integer" and text.lstrip("-").isdecimal():
        return int(text)
    if attribute is not None and attribute.type in ("map", "list", "properties") and text[:1] in ("{", "["):
        return json_value(text, name)
    return text


def json_value(text: str, name: str) -> Any:
    """Parse JSON; `name` is the argument or option for the error. Raises UsageError."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{name} is not JSON: {error}") from None


def json_map(text: str, name: str) -> dict[str, Any]:
    """Parse JSON that must be a map. Raises UsageError."""
    value = json_value(text, name)
    if not isinstance(value, dict):
        raise UsageError(f"{name} is not a JSON map")
    return value


def _print(request: ManageRequest, data: Any) -> None:
    indent = None if request.indent < 0 else request.indent
    print(json.dumps(data, indent=indent))


def _each(request: ManageRequest, done: str, work: Callable[[dict[str, Any]], _Result]) -> list[_Result]:
    """Call `work` with each map of attributes, in order; returns the results. `done`: the operation's participle.

    Raises ClientError at the first failure; for a list, it names the entity. Those before it are done.
    """
    results: list[_Result] = []
    total = len(request.attributes)
    for attributes in request.attributes:
        try:
            results.append(work(attributes))
        except ClientError as error:
            if not request.bulk:
                raise
            where = f"entity {len(results) + 1} of {total} ({_label(request, attributes)})"
            left = total - len(results) - 1
            raise ClientError(f"{where}: {error}; {done} before: {len(results)}, not tried: {left}") from None
    return results


def _label(request: ManageRequest, attributes: Mapping[str, Any]) -> str:
    """Type and name of an entity, as far as they are known."""
    ids = request.ids(attributes)
    words = [str(word) for word in (request.kind(attributes), ids.get("identity") or ids.get("name")) if word]
    return one_line(" ".join(words)) or "without a type and a name"


def _print_results(request: ManageRequest, results: list[dict[str, Any]]) -> None:
    _print(request, results if request.bulk else results[0])


def _query(client: ManagementClient, request: ManageRequest) -> None:
    rows = client.query(request.type, request.words)
    _print(request, [{name: value for name, value in row.items() if value is not None} for row in rows])


def _create(client: ManagementClient, request: ManageRequest) -> None:
    def work(attributes: dict[str, Any]) -> dict[str, Any]:
        kind = request.kind(attributes)
        if not kind:
            raise ClientError("no entity type given: --type TYPE or type=TYPE")
        return client.create(kind, attributes, name=request.name or attributes.get("name"))

    _print_results(request, _each(request, "created", work))


def _read(client: ManagementClient, request: ManageRequest) -> None:
    _print(request, client.read(request.kind(request.attributes[0]), **request.ids(request.attributes[0])))


def _update(client: ManagementClient, request: ManageRequest) -> None:
    def work(attributes: dict[str, Any]) -> dict[str, Any]:
        changes = {name: value for name, value in attributes.items() if name not in ("type", "identity")}
        return client.update(changes, request.kind(attributes), **request.ids(attributes))

    _print_results(request, _each(request, "updated", work))


def _delete(client: ManagementClient, request: ManageRequest) -> None:
    def work(attributes: dict[str, Any]) -> None:
        client.delete(request.kind(attributes), **request.ids(attributes))

    _each(request, "deleted", work)


def _described(operation: str) -> Operation:
    def run(client: ManagementClient, request: ManageRequest) -> None:
        kind = request.type or (request.words[0] if request.words else None)
        _print(request, client.node_operation(operation, entityType=long_type(kind)))

    return run


def _log(client: ManagementClient, request: ManageRequest) -> None:
    _print(request, client.node_operation("GET-LOG", **request.attributes[0]))


def _custom(client: ManagementClient, request: ManageRequest) -> None:
    properties = {**request.attributes[0], **request.properties}
    properties |= {"type": long_type(request.type), **request.ids()}
    result = client.operation(request.operation, request.body, **properties)
    if isinstance(result, str):
        print(result)
    elif result:
        _print(request, result)


OPERATIONS: dict[str, Operation] = {
    "query": _query,
    "create": _create,
    "read": _read,
    "update": _update,
    "delete": _delete,
    "get-types": _described("GET-TYPES"),
    "get-attributes": _described("GET-ATTRIBUTES"),
    "get-operations": _described("GET-OPERATIONS"),
    "get-annotations": _described("GET-ANNOTATIONS"),
    "get-mgmt-nodes": _described("GET-MGMT-NODES"),
    "get-schema": _described("GET-SCHEMA"),
    "get-log": _log,
}
