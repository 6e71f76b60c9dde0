"""Answers the HTTP requests at a listener with `http: yes`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from waymesh_router.connections.transports import handshake_timeout_s
from waymesh_router.events.event import Event, at
from waymesh_router.runtime.http.caller import PREFIX, Caller
from waymesh_router.runtime.http.connection import HttpConnection
from waymesh_router.runtime.http.console import ConsoleFiles
from waymesh_router.runtime.http.files import StaticFiles
from waymesh_router.runtime.http.logins import PageLogins
from waymesh_router.runtime.http.message import Answer, Request, refusal, text_answer
from waymesh_router.runtime.http.origins import OTHER_HOST, OTHER_ORIGIN, LoopbackHosts, Origins, is_loopback
from waymesh_router.runtime.http.pages import Page, page
from waymesh_router.runtime.tls.identity import Identity
from waymesh_router.runtime.tls.sockets import Transport
from waymesh_router.runtime.transport.listener import Listener
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_router.router import Router
    from waymesh_router.runtime.http.rest import RestApi
    from waymesh_router.runtime.http.server import Owner
    from waymesh_router.runtime.http.web_socket import WebSocketStream
    from waymesh_router.runtime.workers import Workers


class Site:
    """Answers the requests at one listener."""

    def __init__(self, attrs: Mapping[str, Any], pages: Callable[[str], Page | None]) -> None:
        """`pages(path)` creates the router's own pages. Raises HostError if the folder of files is unusable."""
        root = attrs.get("httpRootDir")
        self.known_only = bool(attrs.get("authenticatePeer"))
        self._pages = pages
        self._files = StaticFiles(str(attrs["name"]), root) if root else None
        self._console = ConsoleFiles(str(attrs["name"])) if attrs.get("console") else None
        allowed = attrs.get("allowedOrigins") or ""
        self._upgrade = None if attrs.get("websockets") is False else _upgrade(allowed)
        self._origins = Origins(allowed) if self.known_only else None
        open_here = self._console is not None and not self.known_only and is_loopback(str(attrs.get("host") or ""))
        self._hosts = LoopbackHosts(allowed) if open_here else None

    def answer(self, request: Request, *, secure: bool) -> Answer:
        """The answer to a request of a client that may see the pages; `secure`: the client uses TLS."""
        return self.before_login(request, secure=secure) or self.after_login(request)

    def before_login(self, request: Request, *, secure: bool) -> Answer | None:
        """The answer to a request for a WebSocket, where SASL follows; for the console, which logs in there; or of a
        web page of another origin: it acts for its reader, however this one logs in. Decision 0028"""
        if self._hosts is not None and not self._hosts.admit(request.field("host") or ""):
            return refusal(HTTPStatus.FORBIDDEN, OTHER_HOST)
        upgraded = self._upgrade(request, secure) if self._upgrade is not None else None
        if upgraded is not None:
            return upgraded
        console = self._console.answer(request) if self._console is not None else None
        if console is not None or self._origins is None:
            return console
        if self._origins.admit(request.field("origin"), request.field("host") or "", secure=secure):
            return None
        return refusal(HTTPStatus.FORBIDDEN, OTHER_ORIGIN)

    def after_login(self, request: Request) -> Answer:
        """The answer to a request for a page."""
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
        self,
        owner: Owner,
        router: Router,
        attrs: Mapping[str, Any],
        connections: set[HttpConnection],
        workers: Workers,
    ) -> None:
        """`connections`: those without a complete answer, updated here. Raises HostError if the files are unusable."""
        self._owner = owner
        self._logins = PageLogins(owner, attrs, workers)
        self._site = Site(attrs, lambda path: page(router, attrs, path, owner.loop.now()))
        self._connections = connections
        self._rest = _rest(owner, attrs, self._logins, workers) if attrs.get("console") else None

    def accepted(self, listener: Listener, sock: Transport, peer: str, identity: Identity | None) -> None:
        """A client's transport is ready for a request."""

        def ended(http: HttpConnection, stream: WebSocketStream | None) -> None:
            self._connections.discard(http)
            if http.refused:
                kind = LogEvent.AUTHENTICATION_FAILED if http.failed_login else LogEvent.CONNECTION_REFUSED
                who = {"user": http.user, **at(listener.name, peer)} if http.user else at(listener.name, peer)
                event = Event(kind, who, {"reason": http.refused})
                text = f"{listener}: connection from {peer} not served: {http.refused}"
                self._owner.log("HTTP", "info", text, event)
            if stream is None:
                listener.opening.remove(fd)
            else:
                from waymesh_router.runtime.http.web_socket_io import WebSocketIO

                self._owner.accepted(listener, sock, peer, identity, partial(WebSocketIO, stream=stream))

        fd = sock.fileno()
        respond = partial(self._respond, caller=Caller(listener, sock, peer, identity))
        limit_s = handshake_timeout_s(listener.attrs)
        http = HttpConnection(self._owner.loop, self._owner.lingering, sock, limit_s, respond, ended)
        if self._rest is not None:
            http.take_content()
        self._connections.add(http)
        listener.opening.passed_on(fd, http.close)

    def _respond(self, http: HttpConnection, request: Request, *, caller: Caller) -> Answer | None:
        secure = caller.secure

        def page_of() -> Answer:
            return self._site.after_login(request)

        try:
            early = self._site.before_login(request, secure=secure)
            if early is not None:
                return early
            if self._rest is not None and request.path.startswith(PREFIX):
                return self._rest.answer(http, request, caller)
            if not self._site.known_only or caller.identity is not None:
                return page_of()
            if not secure or request.field("authorization") is None:
                return self._logins.refuse(secure=secure)

            def checked(refused: Answer | None) -> None:
                if http.waits:
                    http.answer_later(refused or self._guarded(request, page_of))

            return self._logins.check(request, caller.peer, lambda: http.waits, checked)
        except Exception as error:  # noqa: BLE001 - the connection edge
            return self._internal(request, error)

    def _guarded(self, request: Request, answer: Callable[[], Answer]) -> Answer:
        try:
            return answer()
        except Exception as error:  # noqa: BLE001 - the connection edge
            return self._internal(request, error)

    def _internal(self, request: Request, error: Exception) -> Answer:
        self._owner.internal_error(f"while answering the request for {request.path}", error)
        return text_answer(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error")


def _rest(owner: Owner, attrs: Mapping[str, Any], logins: PageLogins, workers: Workers) -> RestApi:
    """The REST API, whose modules are only imported for listeners that have it."""
    from waymesh_router.runtime.http.rest import RestApi

    return RestApi(owner, attrs, logins, workers)


def _upgrade(allowed: str) -> Callable[[Request, bool], Answer | None]:
    """A function that answers WebSocket upgrade requests. wsproto is only imported for listeners that accept them."""
    from waymesh_router.runtime.http.upgrade import asks_for_web_socket, upgrade

    origins = Origins(allowed)
    return lambda request, secure: upgrade(request, origins, secure=secure) if asks_for_web_socket(request) else None
