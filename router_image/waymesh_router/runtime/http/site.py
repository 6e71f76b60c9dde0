"""Answers the HTTP requests at a listener with `http: yes`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from waymesh_router.connections.transports import handshake_timeout_s
from waymesh_router.events.event import Event, at
from waymesh_router.runtime.http.connection import HttpConnection
from waymesh_router.runtime.http.files import StaticFiles
from waymesh_router.runtime.http.message import Answer, Request, refusal, text_answer
from waymesh_router.runtime.http.pages import Page, page
from waymesh_router.runtime.tls.sockets import TlsSocket, Transport
from waymesh_router.runtime.transport.listener import Listener
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_router.router import Router
    from waymesh_router.runtime.http.server import Owner
    from waymesh_router.runtime.http.web_socket import WebSocketStream


NEEDS_CERTIFICATE = "authenticatePeer: the pages are for clients with a certificate"
CERTIFICATE_SCHEME = "TLS-Client-Certificate"
"""In the answer 401, which must name a scheme (RFC 9110, 11.6.1). There is no registered one for certificates."""


class Site:
    """Answers the requests at one listener."""

    def __init__(self, attrs: Mapping[str, Any], pages: Callable[[str], Page | None]) -> None:
        """`pages(path)` creates the router's own pages. Raises HostError if the folder of files is unusable."""
        root = attrs.get("httpRootDir")
        self._known_only = bool(attrs.get("authenticatePeer"))
        self._pages = pages
        self._files = StaticFiles(str(attrs["name"]), root) if root else None
        self._upgrade = None if attrs.get("websockets") is False else _upgrade(attrs.get("allowedOrigins") or "")

    def answer(self, request: Request, *, secure: bool, user: str | None = None) -> Answer:
        """The answer to a request; `secure`: the client uses TLS; `user`: of its certificate."""
        upgraded = self._upgrade(request, secure) if self._upgrade is not None else None
        if upgraded is not None:
            return upgraded  # SASL follows
        if self._known_only and user is None:
            return refusal(HTTPStatus.UNAUTHORIZED, NEEDS_CERTIFICATE, (("WWW-Authenticate", CERTIFICATE_SCHEME),))
        if request.method not in ("GET", "HEAD"):
            text = f"{request.method} is not supported"
            return text_answer(HTTPStatus.METHOD_NOT_ALLOWED, text, (("Allow", "GET, HEAD"),))
        own = self._pages(request.path)
        if own is not None:
            fields = ("Content-Type", own.content_type), ("Cache-Control", "no-store")
            return Answer(own.status, fields, own.text.encode())
        found = self._files.answer(request) if self._files is not None else None
        return found or text_answer(HTTPStatus.NOT_FOUND, "page not found")


class HttpListener:
    """Serves the transports that one listener accepts."""

    def __init__(
        self, owner: Owner, router: Router, attrs: Mapping[str, Any], connections: set[HttpConnection]
    ) -> None:
        """`connections`: those without a complete answer, updated here. Raises HostError if the files are unusable."""
        self._owner = owner
        self._site = Site(attrs, lambda path: page(router, attrs, path, owner.loop.now()))
        self._connections = connections

    def accepted(self, listener: Listener, sock: Transport, peer: str, user: str | None) -> None:
        """A client's transport is ready for a request."""

        def ended(http: HttpConnection, stream: WebSocketStream | None) -> None:
            self._connections.discard(http)
            if http.refused:
                event = Event(LogEvent.CONNECTION_REFUSED, at(listener.name, peer), {"reason": http.refused})
                text = f"{listener}: connection from {peer} not served: {http.refused}"
                self._owner.log("HTTP", "info", text, event)
            if stream is None:
                listener.opening.remove(fd)
            else:
                from waymesh_router.runtime.http.web_socket_io import WebSocketIO

                self._owner.accepted(listener, sock, peer, user, partial(WebSocketIO, stream=stream))

        fd = sock.fileno()
        respond = partial(self._respond, secure=isinstance(sock, TlsSocket), user=user)
        limit_s = handshake_timeout_s(listener.attrs)
        http = HttpConnection(self._owner.loop, self._owner.lingering, sock, limit_s, respond, ended)
        self._connections.add(http)
        listener.opening.passed_on(fd, http.close)

    def _respond(self, request: Request, *, secure: bool, user: str | None) -> Answer:
        try:
            return self._site.answer(request, secure=secure, user=user)
        except Exception as error:  # noqa: BLE001 - the connection edge
            self._owner.internal_error(f"while answering the request for {request.path}", error)
            return text_answer(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error")


def _upgrade(allowed: str) -> Callable[[Request, bool], Answer | None]:
    """A function that answers WebSocket upgrade requests. wsproto is only imported for listeners that accept them."""
    from waymesh_router.runtime.http.upgrade import Origins, asks_for_web_socket, upgrade

    origins = Origins(allowed)
    return lambda request, secure: upgrade(request, origins, secure=secure) if asks_for_web_socket(request) else None
