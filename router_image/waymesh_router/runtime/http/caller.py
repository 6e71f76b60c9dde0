"""The client of an HTTP request."""

from __future__ import annotations

from dataclasses import dataclass

from waymesh_router.runtime.tls.identity import Identity
from waymesh_router.runtime.tls.sockets import TlsSocket, Transport
from waymesh_router.runtime.transport.listener import Listener

PREFIX = "/api/v1/"
"""Of the paths of the REST API."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a request. `identity`: by its certificate."""

    listener: Listener
    sock: Transport
    peer: str
    identity: Identity | None

    @property
    def host(self) -> str:
        """Its numeric address."""
        return self.peer.rpartition(":")[0]

    @property
    def user(self) -> str | None:
        """The name of its certificate; None without one."""
        return None if self.identity is None else self.identity.user

    @property
    def secure(self) -> bool:
        """Whether it uses TLS."""
        return isinstance(self.sock, TlsSocket)
