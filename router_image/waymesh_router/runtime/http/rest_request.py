"""Requests of the REST API as management requests: path, query and JSON content. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from waymesh_router.clients.policy_check import ASKED
from waymesh_router.runtime.http.caller import PREFIX
from waymesh_router.runtime.http.message import Fields, Request

DOCUMENT = "openapi.json"
CHECK = "check-policy"
"""Its parameters are the members of the body of CHECK-POLICY."""
ROWS, MOST_ROWS = 100, 1000
"""Entities in an answer, if `count` is not given, and at most."""
MOST_GROUPED = 20_000
"""Entities that `groupBy` counts at most."""
MOST_DEPTH = 16
"""Of lists and maps in each other in the content of a request."""
QUERY, ENTITY, CREATED, NOTHING, GROUPS, OPENAPI = "query", "entity", "created", "nothing", "groups", "openapi"
_NODE = {"type": "org.amqp.management", "name": "self"}
_ROUTER = re.compile(r"[^/\s\x00-\x1f]{1,255}")
_OF_QUERY = ("where", "orderBy", "offset", "count", "attributes", "groupBy")
_OPERATIONS = {"GET": "READ", "HEAD": "READ", "PATCH": "UPDATE", "DELETE": "DELETE"}
_SHAPES = {"READ": ENTITY, "UPDATE": ENTITY, "DELETE": NOTHING}


class Refused(Exception):
    """The request is not passed to the management agent."""

    def __init__(self, status: int, text: str, fields: Fields = ()) -> None:
        super().__init__(text)
        self.status, self.text, self.fields = status, text, fields


@dataclass(frozen=True, slots=True)
class Call:
    """A management request. `router`: its id, "" for this one; `shape`: of the answer; `group_by`: an attribute."""

    properties: Mapping[str, Any]
    shape: str
    body: Mapping[str, Any] = field(default_factory=dict)
    router: str = ""
    group_by: str = ""


def read_call(request: Request) -> Call:
    """The management request of a request for a path below PREFIX. Raises Refused."""
    kind, _, name = _decoded(request.path.removeprefix(PREFIX)).partition("/")
    given = _parameters(request.target.partition("?")[2])
    router = given.pop("router", "")
    if router and not _ROUTER.fullmatch(router):
        raise Refused(HTTPStatus.BAD_REQUEST, "router: not the id of a router")
    if not kind:
        raise Refused(HTTPStatus.NOT_FOUND, f"no entity type in the path: {PREFIX}TYPE; see {PREFIX}{DOCUMENT}")
    if kind == DOCUMENT:
        _allow(request, "GET", "HEAD")
        return Call({**_NODE, "operation": "GET-SCHEMA"}, OPENAPI, router=router)
    if kind == CHECK:
        _allow(request, "GET", "HEAD")
        asked = {parameter: given.pop(parameter) for parameter in ASKED if parameter in given}
        _nothing_left(given)
        return Call({**_NODE, "operation": "CHECK-POLICY"}, ENTITY, asked, router)
    if name:
        return _of_one(request, kind, name, given, router)
    _allow(request, "GET", "HEAD", "POST")
    if request.method == "POST":
        _nothing_left(given)
        return Call({"operation": "CREATE", "type": kind}, CREATED, _content(request), router)
    return _query(kind, given, router)


def _of_one(request: Request, kind: str, name: str, given: dict[str, str], router: str) -> Call:
    _allow(request, *_OPERATIONS)
    by = given.pop("by", "name")
    _nothing_left(given)
    if by not in ("name", "identity"):
        raise Refused(HTTPStatus.BAD_REQUEST, "by: must be name or identity")
    operation = _OPERATIONS[request.method]
    body = _content(request) if operation == "UPDATE" else {}
    return Call({"operation": operation, "type": kind, by: name}, _SHAPES[operation], body, router)


def _query(kind: str, given: dict[str, str], router: str) -> Call:
    properties: dict[str, Any] = {**_NODE, "operation": "QUERY", "entityType": kind}
    group_by = given.pop("groupBy", "")
    names = [name for name in given.pop("attributes", "").split(",") if name]
    most = MOST_GROUPED if group_by else MOST_ROWS
    for number in ("offset", "count"):
        if number in given:
            properties[number] = _whole(number, given.pop(number))
    asked = properties.get("count") or (most if group_by else ROWS)
    if asked > most:
        raise Refused(HTTPStatus.BAD_REQUEST, f"count: must be at most {most}; read the next ones with offset")
    properties["count"] = asked
    properties |= {name: given.pop(name) for name in ("where", "orderBy") if given.get(name)}
    _nothing_left({name: value for name, value in given.items() if value})
    chosen = [group_by] if group_by else names
    return Call(properties, GROUPS if group_by else QUERY, {"attributeNames": chosen}, router, group_by)


def location_of(kind: str, entity: Mapping[str, Any]) -> str:
    """The path of a created entity."""
    return f"{PREFIX}{quote(kind, safe='')}/{quote(str(entity.get('identity')), safe='')}?by=identity"


def grouped(name: str, rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """How many entities have each value of an attribute, the most frequent first."""
    counts: dict[str, int] = {}
    values: dict[str, Any] = {}
    for (value,) in rows:
        key = repr(value)
        values[key] = value
        counts[key] = counts.get(key, 0) + 1
    return [{name: values[key], "count": count} for key, count in sorted(counts.items(), key=lambda one: -one[1])]


def _allow(request: Request, *methods: str) -> None:
    if request.method not in methods:
        text = f"{request.method} is not supported here"
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, text, (("Allow", ", ".join(methods)),))


def _decoded(path: str) -> str:
    try:
        return unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise Refused(HTTPStatus.BAD_REQUEST, "the path is not UTF-8") from None


def _parameters(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict", max_num_fields=16)
    except ValueError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"query: {error}") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Refused(HTTPStatus.BAD_REQUEST, "query: a parameter is given twice")
    return found


def _nothing_left(given: Mapping[str, str]) -> None:
    if given:
        raise Refused(HTTPStatus.BAD_REQUEST, f"unknown or unsuitable parameter {next(iter(given))[:64]!r}")


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Refused(HTTPStatus.BAD_REQUEST, f"{name}: must be a whole number")
    return int(text)


def _content(request: Request) -> dict[str, Any]:
    """The JSON object of a request that changes something: no form of a web page sends this type unasked."""
    kind = (request.field("content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the content must be application/json")
    try:
        found = json.loads(request.content, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        text = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Refused(HTTPStatus.BAD_REQUEST, f"the content is not JSON: {text[:200]}") from None
    if not isinstance(found, dict):
        raise Refused(HTTPStatus.BAD_REQUEST, "the content must be a JSON object")
    if _depth(found) > MOST_DEPTH:
        raise Refused(HTTPStatus.BAD_REQUEST, "the content is nested too deeply")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice")
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _depth(value: Any) -> int:
    """How deeply lists and maps are nested."""
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)
