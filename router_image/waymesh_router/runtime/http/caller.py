"""The client of an HTTP request."""

from __future__ import annotations

from dataclasses import dataclass

from waymesh_router.runtime.tls.sockets import TlsSocket, Transport
from waymesh_router.runtime.transport.listener import Listener

PREFIX = "/api/v1/"
"""Of the paths of the REST API."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a request. `user`: of its certificate."""

    listener: Listener
    sock: Transport
    peer: str
    user: str | None

    @property
    def host(self) -> str:
        """Its numeric address."""
        return self.peer.rpartition(":")[0]

    @property
    def secure(self) -> bool:
        """Whether it uses TLS."""
        return isinstance(self.sock, TlsSocket)
