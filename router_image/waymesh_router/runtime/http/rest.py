"""The REST API below /api/v1/: HTTP requests become management requests of an AMQP client of the same listener.

A request has one AMQP connection, and so one login. Replies are decoded, and written as JSON, in a thread.
"""

from __future__ import annotations

import json
import socket
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from waymesh_amqp.sasl import ANONYMOUS_USER, SaslClient
from waymesh_router.runtime.http.caller import Caller
from waymesh_router.runtime.http.logins import PageLogins, sasl_of
from waymesh_router.runtime.http.message import Answer, Request, refusal
from waymesh_router.runtime.http.openapi import document
from waymesh_router.runtime.http.origins import OTHER_ORIGIN, Origins, host_name
from waymesh_router.runtime.http.rest_client import UNAUTHORIZED, Asked, Reply, RestClient
from waymesh_router.runtime.http.rest_request import (
    CREATED,
    GROUPS,
    NOTHING,
    OPENAPI,
    QUERY,
    Call,
    Refused,
    grouped,
    location_of,
    read_call,
)

if TYPE_CHECKING:
    from waymesh_router.runtime.http.connection import HttpConnection
    from waymesh_router.runtime.http.server import Owner
    from waymesh_router.runtime.workers import Workers

MANAGEMENT = "$management"
TOO_MANY = "too many requests"
RETRY = (("Retry-After", "1"),)
MOST_AT_ONCE, MOST_OF_ONE = 64, 16
"""Requests in progress at a listener, and those of one host."""
_JSON = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))


class RestApi:
    """The API of one listener."""

    def __init__(self, owner: Owner, attrs: Mapping[str, Any], logins: PageLogins, workers: Workers) -> None:
        self._owner = owner
        self._logins = logins
        self._workers = workers
        self._at_once = Counter[str]()  # requests that are not answered yet, by host
        self._origins = Origins(attrs.get("allowedOrigins") or "")

    def answer(self, http: HttpConnection, request: Request, caller: Caller) -> Answer | None:
        """The answer to a request below PREFIX; None: it comes later."""
        if not self._origins.admit(request.field("origin"), request.field("host") or "", secure=caller.secure):
            return refusal(HTTPStatus.FORBIDDEN, OTHER_ORIGIN)
        login = request.field("authorization")
        if login is not None and not caller.secure:
            return self._logins.refuse(secure=False)
        try:
            call = read_call(request)
            asked = Asked(_address(call.router), call.properties, call.body)
            asked.encoded("")
            if self._at_once.total() >= MOST_AT_ONCE or self._at_once[caller.host] >= MOST_OF_ONE:
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, TOO_MANY, RETRY)
            sasl = SaslClient((), choose=partial(_mechanism, login, caller.user))
            name = host_name(request.field("host") or "").strip("[]")
            ours, theirs = socket.socketpair()
        except Refused as refused:
            return _failure(refused.status, refused.text, refused.fields)
        except (ValueError, TypeError, OverflowError, struct.error) as error:
            return _failure(HTTPStatus.BAD_REQUEST, f"the content has a value that AMQP does not have: {error}")
        for sock in (ours, theirs):
            sock.setblocking(False)
        self._at_once[caller.host] += 1
        self._owner.accepted(caller.listener, theirs, caller.peer, caller.identity, seen=caller.sock)
        RestClient(self._owner.loop, ours, name, sasl, asked, partial(self._replied, http, call, caller, login))
        return None

    def _replied(self, http: HttpConnection, call: Call, caller: Caller, login: str | None, reply: Reply) -> None:
        self._at_once -= Counter({caller.host: 1})
        if not http.waits:
            return
        if reply.status == UNAUTHORIZED:
            refused = self._logins.refuse(secure=caller.secure) if login is None else self._logins.wrong(caller.peer)
            schemes = tuple(one for one in refused.fields if one[0] == "WWW-Authenticate")
            http.answer_later(_failure(UNAUTHORIZED, refused.refused, schemes))  # the AMQP connection has logged it
            return
        made: list[Answer] = []

        def work() -> bytes:
            made.append(answer_of(call, *reply.read()))
            return b""

        def done(result: bytes | Exception) -> None:
            if isinstance(result, Exception):
                self._owner.internal_error("while answering a request for the REST API", result)
            if http.waits:
                http.answer_later(made[0] if made else _failure(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error"))

        if not self._workers.submit(caller.host, work, lambda: http.waits, done):
            http.answer_later(_failure(HTTPStatus.SERVICE_UNAVAILABLE, TOO_MANY, RETRY))


def answer_of(call: Call, status: int, text: str, body: Any) -> Answer:
    """The answer with a reply of the agent."""
    if not 200 <= status < 300:
        return _failure(status if status in _STATUSES else HTTPStatus.BAD_GATEWAY, text)
    if call.shape == NOTHING:
        return Answer(HTTPStatus.NO_CONTENT, (("Cache-Control", "no-store"),))
    if call.shape == OPENAPI:
        return _content(HTTPStatus.OK, document(body))
    if call.shape == CREATED:
        return _content(HTTPStatus.CREATED, body, (("Location", location_of(call.properties["type"], body)),))
    if call.shape == GROUPS:
        return _content(HTTPStatus.OK, {"groups": grouped(call.group_by, body["results"])})
    if call.shape == QUERY:
        rows = [dict(zip(body["attributeNames"], row)) for row in body["results"]]
        return _content(HTTPStatus.OK, {"entities": rows})
    return _content(HTTPStatus.OK, body)


_STATUSES = {int(status) for status in HTTPStatus}


def _content(status: int, value: Any, fields: tuple[tuple[str, str], ...] = ()) -> Answer:
    text = json.dumps(value, default=_as_text, allow_nan=False, separators=(",", ":"))
    return Answer(status, (*_JSON, *fields), text.encode())


def _failure(status: int, text: str, fields: tuple[tuple[str, str], ...] = ()) -> Answer:
    return _content(status, {"status": int(status), "error": text}, fields)


def _as_text(value: Any) -> str:
    """AMQP values that JSON does not have."""
    return value.hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)


def _address(router: str) -> str:
    return f"_topo/0/{router}/{MANAGEMENT}" if router else MANAGEMENT


def _mechanism(login: str | None, user: str | None, offered: Sequence[str]) -> tuple[str, bytes] | None:
    """Mechanism and initial response for the login of a request; None: the listener does not accept it."""
    if login is not None:
        return sasl_of(login, offered)
    if user is not None and "EXTERNAL" in offered:
        return "EXTERNAL", b""
    return ("ANONYMOUS", ANONYMOUS_USER.encode()) if "ANONYMOUS" in offered else None
