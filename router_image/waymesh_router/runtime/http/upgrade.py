"""The request that opens a WebSocket for AMQP. Pure; wsproto checks the handshake (RFC 6455, 4.2)."""

from __future__ import annotations

from http import HTTPStatus

import h11
from wsproto.connection import ConnectionType
from wsproto.events import AcceptConnection, RejectConnection
from wsproto.events import Request as UpgradeRequest
from wsproto.handshake import H11Handshake
from wsproto.utilities import RemoteProtocolError

from waymesh_router.runtime.http.message import Answer, Request, refusal
from waymesh_router.runtime.http.origins import OTHER_ORIGIN, Origins
from waymesh_router.runtime.http.web_socket import WebSocketStream

SUBPROTOCOLS = ("amqp", "binary")
"""Accepted subprotocols in order of preference. The second one is an older name, which Qpid Dispatch also accepts."""


def asks_for_web_socket(request: Request) -> bool:
    """Whether a request asks for an upgrade to WebSocket."""
    words = (request.field("upgrade") or "").lower().replace(" ", "").split(",")
    return (request.method, request.version) == ("GET", "1.1") and "websocket" in words


def upgrade(request: Request, origins: Origins, *, secure: bool) -> Answer:
    """The answer to an upgrade request: 101 with the stream, or a refusal. `secure`: the client uses TLS."""
    if not origins.admit(request.field("origin"), request.field("host") or "", secure=secure):
        return refusal(HTTPStatus.FORBIDDEN, OTHER_ORIGIN)
    if request.early:
        return refusal(HTTPStatus.BAD_REQUEST, "the client did not wait for the answer")
    handshake = H11Handshake(ConnectionType.SERVER)
    try:
        handshake.initiate_upgrade_connection(list(request.fields), request.target)
        asked = next(handshake.events())
    except RemoteProtocolError as error:
        return _refusal(error)
    except (h11.ProtocolError, UnicodeError):
        return refusal(HTTPStatus.BAD_REQUEST, "not a WebSocket handshake")
    assert isinstance(asked, UpgradeRequest)
    chosen = next((name for name in SUBPROTOCOLS if name in asked.subprotocols), None)
    if chosen is None:
        return refusal(HTTPStatus.BAD_REQUEST, f"the client must offer the subprotocol {SUBPROTOCOLS[0]}")
    fields = _switching_fields(handshake, chosen)
    return Answer(HTTPStatus.SWITCHING_PROTOCOLS, fields, stream=WebSocketStream())


def _switching_fields(handshake: H11Handshake, subprotocol: str) -> tuple[tuple[str, str], ...]:
    """The header fields of the 101 answer, without extensions, so that messages are never compressed."""
    head = handshake.send(AcceptConnection(subprotocol=subprotocol)).decode("ascii")
    lines = head.strip().split("\r\n")[1:]
    return tuple((name, value.strip()) for name, _, value in (line.partition(":") for line in lines))


def _refusal(error: RemoteProtocolError) -> Answer:
    hint = error.event_hint
    if not isinstance(hint, RejectConnection):
        return refusal(HTTPStatus.BAD_REQUEST, str(error))
    fields = tuple((name.decode(), value.decode()) for name, value in hint.headers)
    return refusal(hint.status_code, str(error), fields)
