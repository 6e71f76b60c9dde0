"""The REST API as an OpenAPI document, from the schema that the management agent shows to the client. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_router.clients.policy_check import ASKED, NEEDED
from waymesh_router.runtime.http.caller import PREFIX
from waymesh_router.runtime.http.rest_request import CHECK, MOST_ROWS, ROWS

_TYPES: Mapping[str, Mapping[str, Any]] = {
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "map": {"type": "object"},
    "list": {"type": "array", "items": {}},
    "entity": {"type": "string"},
}
_TEXTS = ("where", "orderBy", "attributes", "groupBy", "router")
_ABOUT = {
    "where": "Condition, as in QUERY of AMQP management.",
    "orderBy": "Attributes, each with asc or desc.",
    "attributes": "Names of attributes, separated by commas; all if absent.",
    "groupBy": "Count the entities by the values of this attribute.",
    "router": "Id of another router of the mesh.",
    "user": "Name of the user; that of anonymous users if absent.",
    "host": "Numeric address of the client's machine.",
    "hostname": "Host name in the client's open.",
    "policyVhost": "policyVhost of the listener, which replaces the host name.",
    "tokenGroups": "Groups in the user's token, separated by commas.",
    "address": "Of the link; empty for an anonymous sender.",
    "direction": "in: the client receives; out: it sends.",
}


def document(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The document. `schema`: the body of the reply to GET-SCHEMA."""
    kinds: Mapping[str, Any] = schema["entityTypes"]
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {"Error": _error()}
    paths[f"{PREFIX}{CHECK}"] = {"get": _check()}
    for name, kind in sorted(kinds.items()):
        operations = kind.get("operations") or ()
        schemas[name] = _schema(kind)
        paths[f"{PREFIX}{name}"] = _collection(name, operations)
        one = _one(name, operations)
        if one:
            paths[f"{PREFIX}{name}/{{name}}"] = one
    info = {"title": "Waymesh", "version": "v1", "description": "Entities of AMQP management of a router."}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _check() -> dict[str, Any]:
    reasons = {"type": "array", "items": {"type": "string"}}
    found = {"type": "object", "properties": {"allowed": {"type": "boolean"}, "reasons": reasons}}
    given = [_text_parameter(name) | {"required": name in NEEDED} for name in ASKED]
    return {
        "summary": "Whether policy allows a connection and a link, and which rule decides.",
        "parameters": [*given, _text_parameter("router")],
        "responses": _responses("200", found),
    }


def _schema(kind: Mapping[str, Any]) -> dict[str, Any]:
    attributes: Mapping[str, Any] = kind.get("attributes") or {}
    found: dict[str, Any] = {
        "type": "object",
        "properties": {name: _property(attribute) for name, attribute in sorted(attributes.items())},
    }
    if kind.get("description"):
        found["description"] = kind["description"]
    return found


def _property(attribute: Mapping[str, Any]) -> dict[str, Any]:
    kind = attribute.get("type")
    found: dict[str, Any] = dict(_TYPES.get(str(kind), {"type": "string"}))
    if isinstance(kind, list):
        found["enum"] = kind
    if attribute.get("description"):
        found["description"] = attribute["description"]
    if not (attribute.get("create") or attribute.get("update")):
        found["readOnly"] = True
    return found


def _collection(name: str, operations: Any) -> dict[str, Any]:
    rows = {"type": "array", "items": _of(name)}
    found: dict[str, Any] = {
        "get": {
            "summary": f"Entities of type {name}.",
            "parameters": [*map(_text_parameter, _TEXTS), _number("offset", 0), _number("count", ROWS)],
            "responses": _responses("200", {"type": "object", "properties": {"entities": rows}}),
        }
    }
    if "CREATE" in operations:
        found["post"] = {
            "summary": f"Create an entity of type {name}.",
            "requestBody": _body(name),
            "responses": _responses("201", _of(name)),
        }
    return found


def _one(name: str, operations: Any) -> dict[str, Any]:
    by = {"name": "by", "in": "query", "schema": {"enum": ["name", "identity"], "default": "name"}}
    path = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    found: dict[str, Any] = {}
    if "READ" in operations:
        found["get"] = {"summary": f"One {name}.", "responses": _responses("200", _of(name))}
    if "UPDATE" in operations:
        changed = {"requestBody": _body(name), "responses": _responses("200", _of(name))}
        found["patch"] = {"summary": f"Change a {name}.", **changed}
    if "DELETE" in operations:
        found["delete"] = {"summary": f"Delete a {name}.", "responses": _responses("204", None)}
    return {"parameters": [path, by, _text_parameter("router")], **found} if found else {}


def _text_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": _ABOUT[name], "schema": {"type": "string"}}


def _number(name: str, default: int) -> dict[str, Any]:
    limits = {"type": "integer", "minimum": 0, "default": default}
    return {"name": name, "in": "query", "schema": limits | ({"maximum": MOST_ROWS} if name == "count" else {})}


def _of(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _body(name: str) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": _of(name)}}}


def _responses(status: str, schema: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "Done."}
    if schema is not None:
        answer["content"] = {"application/json": {"schema": schema}}
    failed = {"description": "Refused.", "content": {"application/json": {"schema": _of("Error")}}}
    return {status: answer, "default": failed}


def _error() -> dict[str, Any]:
    fields = {"status": {"type": "integer"}, "error": {"type": "string"}}
    return {"type": "object", "required": ["status", "error"], "properties": fields}
