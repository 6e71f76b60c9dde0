"""Listeners: accept connections, detect TLS, and pass the transports to the host."""

from __future__ import annotations

import errno
import math
import socket
from collections.abc import Callable, Mapping
from typing import Any

from waymesh_router.connections.transports import handshake_timeout_s
from waymesh_router.events.event import Event, ModuleLog, at
from waymesh_router.runtime.loop import EPOLLIN, Loop, Timer
from waymesh_router.runtime.tls.contexts import TlsProfile
from waymesh_router.runtime.tls.endpoints import WITHOUT_TLS, ListenerTls
from waymesh_router.runtime.tls.identity import Identity
from waymesh_router.runtime.tls.sockets import TlsSocket, Transport
from waymesh_router.runtime.tls.transports import FirstBytes, FirstMessage, Handshake
from waymesh_router.runtime.transport.addresses import bound_sockets, listen_on, peer_text
from waymesh_router.runtime.transport.opening import Opening
from waymesh_schema.events import LogEvent

ACCEPTS_AT_ONCE = 4
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
RETRY_ACCEPT_S = 1.0
MAX_OPENING = 1000


class _ListeningSocket:
    """One socket of a listener, which has two for any address: IPv4 and IPv6."""

    def __init__(self, listener: Listener, sock: socket.socket) -> None:
        self._listener = listener
        self._sock = sock

    def on_event(self, mask: int) -> None:
        """Clients wait."""
        self._listener.accept(self._sock)

    def abandon(self) -> None:
        """Accepting raised an internal error: pause, then try again."""
        self._listener.pause_accepting()


class Listener:
    """The listening sockets of one `listener` entity. Clients can connect after `listen`."""

    def __init__(
        self,
        loop: Loop,
        attrs: Mapping[str, Any],
        tls: ListenerTls | None,
        accepted: Callable[[Listener, Transport, str, Identity | None], None],
        log: ModuleLog,
    ) -> None:
        """`accepted(self, sock, peer, identity)` is called for each transport that is ready; `identity`: by its
        certificate.

        Raises HostError.
        """
        self.name = str(attrs["name"])
        self.attrs = attrs
        self.tls = tls
        self._loop = loop
        self._accepted = accepted
        self._log = log
        most = int(attrs.get("maxOpeningConnections") or MAX_OPENING)
        event = Event(LogEvent.LIMIT_REACHED, {"listener": self.name}, {"limit": "maxOpeningConnections"})
        self.opening = Opening(most, lambda level, text: log(level, f"{self}: {text}", event))
        self._sockets = bound_sockets(f"listener {self.name}", attrs)
        self._handshakes: dict[int, tuple[Transport, Timer | None]] = {}
        self._pause: Timer | None = None

    def __str__(self) -> str:
        return f"listener {self.name}"

    @property
    def ports(self) -> list[int]:
        """The bound ports (chosen by the system if port 0 was configured)."""
        return [int(sock.getsockname()[1]) for sock in self._sockets]

    @property
    def places(self) -> str:
        """The addresses that it listens on, for the log."""
        return ", ".join(peer_text(sock.getsockname()) for sock in self._sockets)

    def listen(self) -> None:
        """Accept clients from now on. Raises HostError."""
        listen_on(f"listener {self.name}", self._sockets)
        self._register()
        role = "http" if self.attrs.get("http") else self.attrs.get("role") or "normal"
        text = f"Listening on {self.places} ({role}) as {self.name}"
        self._log("notice", text, Event(LogEvent.LISTENER_OPENED, {"listener": self.name}))

    def change(self, attrs: Mapping[str, Any], tls: ListenerTls | None) -> None:
        """Use other attributes, and other TLS, for new clients."""
        self.attrs, self.tls = attrs, tls

    def close(self) -> None:
        """Stop listening and drop handshakes in progress. Accepted connections belong to the host."""
        if self._pause is not None:
            self._pause.cancel()
        for sock in self._sockets:
            self._loop.unregister(sock.fileno())
            sock.close()
        for fd in list(self._handshakes):
            self._drop(fd)

    def accept(self, listening: socket.socket) -> None:
        """Accept clients that wait at one of the sockets: several if others are opening, too. Else most likely only one
        waits, and to find nobody costs as much as to accept a client; if more do, epoll reports them."""
        for _ in range(ACCEPTS_AT_ONCE if len(self.opening) else 1):
            try:
                sock, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in OUT_OF_DESCRIPTORS:
                    self._hold(error)
                    return
                continue  # this client has already disconnected
            try:
                self._start(sock, peer_text(address))
            except Exception as error:  # noqa: BLE001 - the connection edge: accept other clients
                self._loop.on_error(f"with a new client of listener {self.name}", error)
                self._refuse(sock)

    def pause_accepting(self) -> None:
        """Accept nobody for RETRY_ACCEPT_S."""
        for sock in self._sockets:
            self._loop.unregister(sock.fileno())
        self._pause = self._loop.call_later(RETRY_ACCEPT_S, self._register)

    def _register(self) -> None:
        self._pause = None
        for sock in self._sockets:
            self._loop.register(sock.fileno(), _ListeningSocket(self, sock), low_priority=True)

    def _hold(self, error: OSError) -> None:
        """No descriptor is left: pause, because retrying at once would use all CPU time."""
        self._log("error", f"listener {self.name}: cannot accept: {error.strerror}; next try in {RETRY_ACCEPT_S:g} s")
        self.pause_accepting()

    def _start(self, sock: socket.socket, peer: str) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        fd = sock.fileno()
        host = peer.rpartition(":")[0]
        if self.tls is None:
            self.opening.add(fd, host, lambda _: None)
            self._accepted(self, sock, peer, None)
            return
        limit = handshake_timeout_s(self.attrs)
        timer = None
        if limit < math.inf:  # inf: no timer, which the loop would store
            timer = self._loop.call_later(limit, lambda: self._fail(fd, peer, "TLS: the handshake took too long"))
        self._handshakes[fd] = (sock, timer)
        self.opening.add(fd, host, lambda reason: self._fail(fd, peer, reason))
        first = FirstBytes(sock, lambda tls: self._decided(fd, peer, tls), lambda reason: self._fail(fd, peer, reason))
        self._loop.register(fd, first, FirstBytes.MASK, low_priority=True)

    def _decided(self, fd: int, peer: str, tls: bool) -> None:
        """The first bytes of the client showed whether it uses TLS."""
        assert self.tls is not None
        if tls and self.tls.by_host:
            sock = self._handshakes[fd][0]
            assert isinstance(sock, socket.socket)
            first = FirstMessage(
                sock,
                lambda host: self._secure(fd, peer, host),
                lambda reason: self._fail(fd, peer, reason),
            )
            self._loop.replace(fd, first, FirstBytes.MASK)
        elif tls:
            self._secure(fd, peer, None)
        elif self.tls.required:
            self._fail(fd, peer, WITHOUT_TLS)
        else:
            self._accepted(self, self._forget(fd), peer, None)

    def _secure(self, fd: int, peer: str, host: str | None) -> None:
        """Start the handshake, with the profile for the host that the client requests."""
        assert self.tls is not None
        sock, timer = self._handshakes[fd]
        assert isinstance(sock, socket.socket)
        profile = self.tls.profile_for(host)
        try:
            secured = TlsSocket(self.tls.context(profile), sock, server=True)
        except OSError as error:  # the client has already disconnected
            self._fail(fd, peer, f"TLS: {error.strerror or error}")
            return
        self._handshakes[fd] = (secured, timer)
        handshake = Handshake(
            self._loop,
            secured,
            lambda _: self._secured(fd, peer, secured, profile),
            lambda reason: self._fail(fd, peer, reason),
        )
        self._loop.replace(fd, handshake)
        handshake.on_event(EPOLLIN)

    def _refuse(self, sock: Transport) -> None:
        """Close a client that could not be set up because of an internal error."""
        fd = sock.fileno()
        if fd in self._handshakes:
            sock = self._forget(fd)
        self.opening.remove(fd)
        self._loop.unregister(fd)
        sock.close()

    def _secured(self, fd: int, peer: str, sock: TlsSocket, profile: TlsProfile) -> None:
        """The handshake is complete and the client's certificate verified: check whether it is allowed here."""
        assert self.tls is not None
        reason = self.tls.refused_peer(sock, profile) or self.tls.outdated(sock, profile)
        if reason is None:
            self._accepted(self, self._forget(fd), peer, profile.identity_of(sock))
        else:
            self._fail(fd, peer, f"TLS: {reason}")

    def _fail(self, fd: int, peer: str, reason: str) -> None:
        if fd not in self._handshakes:  # already passed on, or failed
            return
        self._drop(fd)
        if not reason:
            return
        event = Event(LogEvent.CONNECTION_REFUSED, at(self.name, peer), {"reason": reason})
        self._log("error", f"listener {self.name}: connection from {peer} failed: {reason}", event)

    def _drop(self, fd: int) -> None:
        """End a handshake in progress."""
        self.opening.remove(fd)
        sock = self._forget(fd)
        self._loop.unregister(fd)
        sock.close()

    def _forget(self, fd: int) -> Transport:
        """Remove a socket from the handshakes: its timer cancelled, still open and registered for its next owner."""
        sock, timer = self._handshakes.pop(fd)
        if timer is not None:
            timer.cancel()
        return sock
