"""The HTTP connections of one router."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from waymesh_router.pages import INTERNAL_ERROR, Page, page
from waymesh_router.runtime.http_io import HttpConnection
from waymesh_router.runtime.listener import Listener
from waymesh_router.runtime.loop import Loop

if TYPE_CHECKING:
    from waymesh_router.router import Router


class Owner(Protocol):
    """What is needed of the host."""

    loop: Loop

    def internal_error(self, where: str, error: Exception) -> None:
        """Log and count an internal error."""


class HttpServer:
    """Answers requests at listeners with `http: yes`. `router` is to be set before the first one."""

    router: Router

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._connections: set[HttpConnection] = set()

    def accepted(self, listener: Listener, sock: socket.socket, peer: str, _user: str | None) -> None:
        """A client's transport is ready for a request."""
        fd = sock.fileno()
        pages, ended = partial(self._page, listener.attrs), partial(self._ended, listener, fd)
        http = HttpConnection(self._owner.loop, sock, pages, ended)
        self._connections.add(http)
        listener.opening.passed_on(fd, lambda _: http.close())

    def close(self) -> None:
        """Close all connections at once."""
        for http in list(self._connections):
            http.close()

    def _ended(self, listener: Listener, fd: int, http: HttpConnection) -> None:
        self._connections.discard(http)
        listener.opening.remove(fd)

    def _page(self, attrs: Mapping[str, Any], path: str) -> Page:
        try:
            return page(self.router, attrs, path, self._owner.loop.now())
        except Exception as error:  # noqa: BLE001 - the connection edge
            self._owner.internal_error(f"over the page {path}", error)
            return Page(INTERNAL_ERROR, "internal error\n")
