"""`waymesh manage`: read and change a running router. Operations and arguments are qdmanage's (Dispatch book 3.2.2)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waymesh_client.cli.options import add_connection_options, run_tool
from waymesh_client.errors import ClientError
from waymesh_client.management import ManagementClient, long_type
from waymesh_schema.entities import entity_type
from waymesh_schema.errors import SchemaError


class UsageError(Exception):
    """The command line or standard input does not make sense; exit status 2."""


@dataclass(frozen=True, slots=True)
class Call:
    """One command: the client to use, the parsed options, and the words behind the operation."""

    client: ManagementClient
    options: argparse.Namespace
    words: list[str]
    attributes: list[dict[str, Any]]

    def ids(self, attributes: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Identifying properties: options first, then attributes. An identity alone is sent when there is one."""
        given = attributes or {}
        identity = self.options.identity or given.get("identity")
        name = self.options.name or given.get("name")
        return {"identity": identity} if identity else {"name": name}

    def kind(self, attributes: Mapping[str, Any] | None = None) -> str | None:
        """Entity type: of the option, else of the attributes."""
        return self.options.type or (attributes or {}).get("type")


def main(argv: Sequence[str]) -> int:
    """Run the tool; returns the exit status: 0, 1 for an error, 2 for wrong usage."""
    parser = _parser()
    try:
        options = parser.parse_intermixed_args(argv)
        words, attributes = _arguments(options)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except UsageError as error:
        parser.print_usage(sys.stderr)
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    operation = _OPERATIONS.get(options.operation.lower(), _custom)
    return run_tool(parser, options, lambda client: operation(Call(client, options, words, attributes)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="waymesh manage",
        description="Read and change a running router. Any other operation is sent as it is, with ATTR=VALUE as its "
        "properties.",
    )
    parser.add_argument("operation", metavar="OPERATION", help=", ".join(_OPERATIONS))
    parser.add_argument(
        "arguments", nargs="*", metavar="ARG", help="ATTR=VALUE, attribute names (query), or TYPE/NAME of one entity"
    )
    parser.add_argument("--type", help="entity type, short or long")
    parser.add_argument("--name", help="name of the entity")
    parser.add_argument("--identity", metavar="ID", help="identity of the entity")
    parser.add_argument("--indent", type=int, default=2, help="indentation of JSON; -1: one line (%(default)s)")
    parser.add_argument("--stdin", action="store_true", help="read attributes from standard input: JSON map or list")
    parser.add_argument("--body", type=_json, metavar="JSON", help="body of another operation")
    parser.add_argument("--properties", type=_json_map, metavar="JSON", help="properties of another operation")
    parser.add_argument("-r", "--router", metavar="ID", help="a router of the network, by its id")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="accepted for qdmanage's sake")
    add_connection_options(parser)
    return parser


def _arguments(options: argparse.Namespace) -> tuple[list[str], list[dict[str, Any]]]:
    """Plain words, and the attribute maps: one of the command line, or those of standard input."""
    words = [word for word in options.arguments if "=" not in word]
    pairs = [word.partition("=") for word in options.arguments if "=" in word]
    _entity_of_words(options, words)
    kind = options.type or next((value for name, _, value in pairs if name == "type"), None)
    attributes = {name: _value(kind, name, value) for name, _, value in pairs}
    options.bulk = False
    if not options.stdin:
        return words, [attributes]
    try:
        data = json.load(sys.stdin)
    except ValueError as error:
        raise UsageError(f"standard input is not JSON: {error}") from None
    options.bulk = isinstance(data, list)
    maps = data if options.bulk else [data]
    if not all(isinstance(one, dict) for one in maps):
        raise UsageError("standard input must be a JSON map or a list of maps")
    return words, [{**one, **attributes} for one in maps]


def _entity_of_words(options: argparse.Namespace, words: list[str]) -> None:
    """`update log/DEFAULT enable=debug+`: a word `type/rest` behind read, update or delete is an identity."""
    if options.operation.lower() in ("read", "update", "delete") and words and not (options.identity or options.name):
        options.identity = words.pop(0)
    if words and options.operation.lower() in ("create", "read", "update", "delete", "get-mgmt-nodes", "get-schema"):
        raise UsageError(f"unexpected arguments: {' '.join(words)}")


def _value(kind: str | None, name: str, text: str) -> Any:
    """A value of the command line as the type the schema gives the attribute."""
    if text in ("true", "false"):
        return text == "true"
    try:
        attribute = entity_type(kind).attributes.get(name) if kind else None
    except SchemaError:
        attribute = None
    if attribute is not None and attribute.type == "integer" and text.lstrip("-").isdecimal():
        return int(text)
    if attribute is not None and attribute.type in ("map", "list", "properties") and text[:1] in ("{", "["):
        return _json_value(text, name)
    return text


def _json_value(text: str, name: str) -> Any:
    try:
        return _json(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{name} {error}") from None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"is not JSON: {error}") from None


def _json_map(text: str) -> dict[str, Any]:
    value = _json(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("is not a JSON map")
    return value


def _print(call: Call, data: Any) -> None:
    indent = None if call.options.indent < 0 else call.options.indent
    print(json.dumps(data, indent=indent))


def _print_each(call: Call, work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    results = [work(attributes) for attributes in call.attributes]
    _print(call, results if call.options.bulk else results[0])


def _query(call: Call) -> None:
    rows = call.client.query(call.options.type, call.words)
    _print(call, [{name: value for name, value in row.items() if value is not None} for row in rows])


def _create(call: Call) -> None:
    def work(attributes: dict[str, Any]) -> dict[str, Any]:
        kind = call.kind(attributes)
        if not kind:
            raise ClientError("no entity type given: --type TYPE or type=TYPE")
        return call.client.create(kind, attributes, name=call.options.name or attributes.get("name"))

    _print_each(call, work)


def _read(call: Call) -> None:
    _print(call, call.client.read(call.kind(call.attributes[0]), **call.ids(call.attributes[0])))


def _update(call: Call) -> None:
    def work(attributes: dict[str, Any]) -> dict[str, Any]:
        changes = {name: value for name, value in attributes.items() if name not in ("type", "identity")}
        return call.client.update(changes, call.kind(attributes), **call.ids(attributes))

    _print_each(call, work)


def _delete(call: Call) -> None:
    for attributes in call.attributes:
        call.client.delete(call.kind(attributes), **call.ids(attributes))


def _described(operation: str) -> Callable[[Call], None]:
    def run(call: Call) -> None:
        kind = call.options.type or (call.words[0] if call.words else None)
        _print(call, call.client.node_operation(operation, entityType=long_type(kind)))

    return run


def _log(call: Call) -> None:
    _print(call, call.client.node_operation("GET-LOG", **call.attributes[0]))


def _custom(call: Call) -> None:
    options = call.options
    properties = {**call.attributes[0], **(options.properties or {})}
    properties |= {"type": long_type(options.type), **call.ids()}
    result = call.client.operation(options.operation, options.body, **properties)
    if isinstance(result, str):
        print(result)
    elif result:
        _print(call, result)


_OPERATIONS: dict[str, Callable[[Call], None]] = {
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
