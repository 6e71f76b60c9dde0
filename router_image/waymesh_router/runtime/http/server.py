"""The HTTP connections of one router."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from waymesh_router.events.event import Log
from waymesh_router.runtime.loop import Loop
from waymesh_router.runtime.sasl.users import UserFiles
from waymesh_router.runtime.tls.identity import Identity
from waymesh_router.runtime.tls.sockets import Transport
from waymesh_router.runtime.tls.transports import MakeIO
from waymesh_router.runtime.tokens.profiles import TokenProfiles
from waymesh_router.runtime.transport.linger import Lingering
from waymesh_router.runtime.transport.listener import Listener
from waymesh_router.runtime.workers import Workers

if TYPE_CHECKING:
    from waymesh_router.router import Router
    from waymesh_router.runtime.http.connection import HttpConnection

Accepted = Callable[[Listener, Transport, str, Identity | None], None]
"""Takes a transport of a listener: its socket, the peer, who the peer is by its certificate."""


class Owner(Protocol):
    """The members of the host that HTTP uses."""

    loop: Loop
    lingering: Lingering
    tokens: TokenProfiles
    users: UserFiles

    @property
    def log(self) -> Log:
        """Writes a log line."""

    def internal_error(self, where: str, error: Exception) -> None:
        """Log and count an internal error."""

    def accepted(
        self, listener: Listener, sock: Transport, peer: str, identity: Identity | None, make: MakeIO = ...,
        seen: Transport | None = None,
    ) -> None:  # fmt: skip
        """A client's transport is ready for AMQP. `seen`: the one that it uses, if `sock` only carries its requests."""


class HttpServer:
    """Serves listeners with `http: yes`. `router` must be set before the first one."""

    router: Router

    def __init__(self, owner: Owner, workers: Workers) -> None:
        """`workers`: the threads in which AMQP clients log in, too."""
        self._owner = owner
        self._workers = workers
        self._connections: set[HttpConnection] = set()

    def accepting(self, attrs: Mapping[str, Any]) -> Accepted:
        """The function that takes over the transports of a listener. Raises HostError if its files are unusable."""
        from waymesh_router.runtime.http.site import HttpListener  # with h11, which takes time to import

        return HttpListener(self._owner, self.router, attrs, self._connections, self._workers).accepted

    def close(self) -> None:
        """Close all connections at once."""
        for http in list(self._connections):
            http.close()
