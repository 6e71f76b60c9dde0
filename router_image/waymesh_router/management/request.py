"""Reads management requests from AMQP messages and checks their form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from waymesh_amqp.codec_decode import compound_header, has_more_values
from waymesh_amqp.errors import DecodeError
from waymesh_amqp.message import Message, decode_message
from waymesh_amqp.transfer import whole_transfer
from waymesh_router.core.forwarding.sections import Sections
from waymesh_router.management.errors import bad_request

MAX_VALUES = 10_000
"""Maximum number of values in a request, which is decoded in one step: about a microsecond for each. Enough for 200
user groups with all attributes; a list of addresses is one value."""
MANAGEMENT_TYPE = "org.amqp.management"
"""Type of the management node itself; its name and identity are `self`."""
READ_OPERATIONS = frozenset(
    (
        "READ",
        "QUERY",
        "GET-TYPES",
        "GET-ATTRIBUTES",
        "GET-OPERATIONS",
        "GET-ANNOTATIONS",
        "GET-SCHEMA",
        "GET-JSON-SCHEMA",
        "GET-MGMT-NODES",
        "DISCOVER-MGMT-NODES",
        "GET-LOG",
        "CHECK-POLICY",
    )
)
"""Operations that change nothing. All others need the write right."""
TENANT_OPERATIONS = READ_OPERATIONS - {"GET-LOG"}
"""Operations for tenants. Their agent has only their own entities."""
_PROPERTIES = b"\x00\x53\x73"
"""Descriptor of the properties of a message. Spec: 3.2.4"""
_NODE_TYPES = (None, MANAGEMENT_TYPE, "management", "org.apache.qpid.dispatch.management")


@dataclass(frozen=True, slots=True)
class Request:
    """The fields of a request that all operations have. `count`: None means all.

    `host_values`: the request may name files and environment variables of the router's machine. `connection`: identity
    of the connection that it arrived on, None for a request of this router itself. `to`: the address of the message.
    """

    operation: str
    type: str | None
    name: str | None
    identity: str | None
    entity_type: str | None
    offset: int
    count: int | None
    properties: Mapping[str, Any]
    body: Mapping[str, Any]
    host_values: bool = False
    connection: str | None = None
    to: str | None = None

    @property
    def ids(self) -> dict[str, str]:
        """The identifying values that were sent."""
        pairs = (("identity", self.identity), ("name", self.name))
        return {key: value for key, value in pairs if value is not None}

    @property
    def for_node(self) -> bool:
        """Whether the request is for the management node itself and not for an entity."""
        if self.type not in _NODE_TYPES:
            return False
        return all(value == "self" for value in self.ids.values())

    def integer(self, name: str) -> int | None:
        """A property that is a whole number; None if it is absent."""
        return _whole(self.properties.get(name), name)


def read_request(message: Message, host_values: bool = False, connection: str | None = None) -> Request:
    """Read a request; raises `ManagementError` 400 when it has no operation or a part is of the wrong type."""
    properties = _string_keys(message.application_properties or {})
    body = {} if message.body is None else message.body
    if not isinstance(body, dict):
        raise bad_request("the body of a request must be a map")
    body = _string_keys(body)
    operation = _text(properties.get("operation"), "operation")
    if operation is None:
        raise bad_request("no 'operation' property")
    kind = _text(properties.get("type"), "type")
    entity_type = _text(properties.get("entityType", body.get("entityType")), "entityType")
    if operation.upper() == "QUERY" and kind not in _NODE_TYPES:
        kind, entity_type = None, entity_type or kind  # some clients pass the entity type in `type`
    return Request(
        operation=operation.upper(),
        type=kind,
        name=_text(properties.get("name"), "name"),
        identity=_text(properties.get("identity"), "identity"),
        entity_type=entity_type,
        offset=_whole(properties.get("offset", body.get("offset")), "offset") or 0,
        # Clients of Dispatch send 0 for "no limit".
        count=_whole(properties.get("count", body.get("count")), "count") or None,
        properties=properties,
        body=body,
        host_values=host_values,
        connection=connection,
    )


def decode_request(data: bytes) -> tuple[Message, bool]:
    """The message of a request, and whether it is whole. One with more than MAX_VALUES values has only its properties,
    for the reply. Raises DecodeError."""
    if not has_more_values(data, 0, len(data), MAX_VALUES):
        return decode_message(data), True
    sections = Sections()
    sections.scan(whole_transfer(data, False))
    start = sections.rest
    value = start + len(_PROPERTIES)
    constructor = data[value : value + 1]
    if data[start:value] == _PROPERTIES and constructor in (b"\xc0", b"\xd0"):
        _, _, end = compound_header(data, value + 1, len(data), constructor == b"\xd0")
        if not has_more_values(data, start, end, MAX_VALUES):
            return decode_message(data[start:end]), False
    raise DecodeError(f"more than {MAX_VALUES} values")


def _string_keys(values: Mapping[Any, Any]) -> dict[str, Any]:
    if not all(isinstance(key, str) for key in values):
        raise bad_request("keys must be strings")
    return {str(key): value for key, value in values.items()}


def _text(value: Any, name: str) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bytes):
        # Old Python 2 clients send native strings as binary.
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise bad_request(f"'{name}' must be a string") from None
    if not isinstance(value, str):
        raise bad_request(f"'{name}' must be a string")
    return str(value)


def _whole(value: Any, name: str) -> int | None:
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise bad_request(f"'{name}' must be a whole number of at least 0")
