"""Connectors: keep one outgoing transport up, with back-off, over all addresses and failover targets of the peer."""

from __future__ import annotations

import errno
import os
import socket
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from waymesh_router.runtime.addresses import SocketAddress, family, numeric_address, peer_text, port_number, resolve
from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.loop import EPOLLOUT, Loop, Timer
from waymesh_router.runtime.tls import TlsProfile
from waymesh_router.runtime.tls_io import Handshake

FIRST_DELAY_S = 0.05
LAST_DELAY_S = 2.0
"""A peer that is there again is noticed, and its links are, within 5 s, even if it refuses one try while it starts."""
STABLE_S = 1.0
"""A connection that lived this long was a success: back-off starts anew. A peer that refuses us does so sooner."""
OPEN_TIMEOUT_S = 15.0
"""Time for connecting to one address, and for the TLS handshake on it."""


class Owner(Protocol):
    """What a connector tells the host."""

    def connected(self, connector: Connector, sock: socket.socket, peer: str) -> None:
        """The transport (and TLS) is up; the socket is registered nowhere."""

    def connect_failed(self, connector: Connector, reason: str) -> None:
        """This try failed; the next one is scheduled."""


class Connector:
    """One `connector` entity."""

    def __init__(
        self, loop: Loop, attrs: Mapping[str, Any], profile: TlsProfile | None, owner: Owner, rng: Callable[[], float]
    ) -> None:
        """`rng()` gives a float in [0, 1) for the jitter. Raises HostError when the attributes make no sense."""
        self.name = str(attrs["name"])
        self.attrs = attrs
        self.targets = configured_targets(self.name, attrs)
        self._loop = loop
        self.profile = profile
        self._owner = owner
        self._rng = rng
        self._verify_hostname = attrs.get("verifyHostname") is not False
        if profile is not None:
            profile.client_context(self._verify_hostname)
        self._target = 0
        self._addresses: list[SocketAddress] = []
        self._delay = FIRST_DELAY_S
        self._since = 0.0
        self._sock: socket.socket | None = None
        self._timer: Timer | None = None
        self._closed = False

    @property
    def peer(self) -> str:
        """`host:port` of the current target as it is configured."""
        return peer_text(self.targets[self._target])

    def start(self) -> None:
        """Try to connect, now."""
        self._edge(self._begin)

    def _begin(self) -> None:
        host, port = self.targets[self._target]
        found = numeric_address(host, port, family(self.attrs))
        if found is not None:
            self._resolved([found], None)
            return
        # A thread for each look-up: one that hangs must not delay the other connectors.
        threading.Thread(target=self._look_up, args=(host, port), name="resolver", daemon=True).start()

    def close(self) -> None:
        """No more tries; a try in progress is given up. An established transport is the host's."""
        self._closed = True
        self._drop()

    def lost(self) -> None:
        """The established transport ended: connect again."""
        if self._loop.now() - self._since >= STABLE_S:
            self._delay = FIRST_DELAY_S
        self._again()

    def set_failover(self, targets: list[tuple[str, int]]) -> None:
        """Further targets, as the connected peer announced them. The configured ones stay first."""
        current = self.targets[self._target]
        configured = configured_targets(self.name, self.attrs)
        self.targets = [*configured, *(target for target in targets if target not in configured)]
        self._target = self.targets.index(current) if current in self.targets else 0

    # ---- name, address, connection, TLS

    def _look_up(self, host: str, port: int) -> None:
        """In the helper thread."""
        found: list[SocketAddress] = []
        problem: str | None = None
        try:
            found = resolve(host, port, family(self.attrs))
        except OSError as error:
            problem = f"cannot resolve {host}: {error.strerror or error}"
        self._loop.call_from_thread(lambda: self._edge(lambda: self._resolved(found, problem)))

    def _resolved(self, addresses: list[SocketAddress], problem: str | None) -> None:
        if self._closed:
            return
        if problem is not None:
            self._fail(problem)
            return
        self._addresses = addresses
        self._next_address()

    def _next_address(self) -> None:
        kind, address = self._addresses.pop(0)
        self._timer = self._loop.call_later(OPEN_TIMEOUT_S, lambda: self._edge(self._too_slow))
        try:
            sock = self._sock = socket.socket(kind, socket.SOCK_STREAM)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = sock.connect_ex(address)
        except OSError as error:
            self._address_failed(error.strerror or str(error))
            return
        if code not in (0, errno.EINPROGRESS):
            self._address_failed(os.strerror(code))
            return
        self._loop.register(sock.fileno(), self, EPOLLOUT)

    def on_event(self, mask: int) -> None:
        """The connection attempt has a result."""
        sock = self._sock
        assert sock is not None
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._address_failed(os.strerror(code))
        elif _is_own_end(sock):
            self._address_failed(os.strerror(errno.ECONNREFUSED))
        elif self.profile is None:
            self._established()
        else:
            self._secure(self.profile, sock)

    def abandon(self) -> None:
        """Something went wrong while the result was taken: that was one failed try."""
        self._drop()
        self._again()

    def _secure(self, profile: TlsProfile, sock: socket.socket) -> None:
        try:
            context = profile.client_context(self._verify_hostname)
            host = self.targets[self._target][0]
            secured = context.wrap_socket(sock, do_handshake_on_connect=False, server_hostname=host)
        except OSError as error:
            self._address_failed(f"TLS: {error}")
            return
        self._sock = secured
        handshake = Handshake(self._loop, secured, lambda _: self._established(), self._address_failed)
        self._loop.replace(secured.fileno(), handshake)
        handshake.on_event(0)  # the client speaks first

    def _established(self) -> None:
        sock = self._sock
        assert sock is not None
        self._sock = None
        self._loop.unregister(sock.fileno())
        self._drop()
        self._since = self._loop.now()
        self._owner.connected(self, sock, self.peer)

    # ---- failures

    def _edge(self, step: Callable[[], None]) -> None:
        """Do a step. An error of our own in it counts as a failed try: the connector goes on."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the edge of timers
            self._loop.on_error(f"in connector {self.name}", error)
            self.abandon()

    def _too_slow(self) -> None:
        self._address_failed("connecting took too long")

    def _address_failed(self, reason: str) -> None:
        self._drop()
        if self._addresses:
            self._next_address()
        else:
            self._fail(f"{self.peer}: {reason}")

    def _fail(self, reason: str) -> None:
        self._owner.connect_failed(self, reason)
        self._again()

    def _again(self) -> None:
        """Schedule the next try, on the next target; delays double, and spread so that peers do not come in step."""
        if self._closed:
            return
        self._target = (self._target + 1) % len(self.targets)
        delay = self._delay * (0.5 + 0.5 * self._rng())
        self._delay = min(self._delay * 2, LAST_DELAY_S)
        self._timer = self._loop.call_later(delay, self.start)

    def _drop(self) -> None:
        """Close the socket of the try in progress, cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._sock is not None:
            self._loop.unregister(self._sock.fileno())
            self._sock.close()
            self._sock = None


def configured_targets(name: str, attrs: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Host and port, then those of failoverUrls. Raises HostError."""
    entity = f"connector {name}"
    found = [(str(attrs.get("host") or "127.0.0.1"), port_number(entity, attrs["port"]))]
    for text in str(attrs.get("failoverUrls") or "").split(","):
        if not text.strip():
            continue
        try:
            url = urllib.parse.urlsplit(text.strip())
            found.append((url.hostname or "", url.port or port_number(entity, url.scheme)))
        except ValueError as error:
            raise HostError(f"{entity}: failoverUrls: {text.strip()}: {error}") from None
        if not url.hostname:
            raise HostError(f"{entity}: failoverUrls: {text.strip()} has no host")
    return found


def _is_own_end(sock: socket.socket) -> bool:
    """TCP lets a socket connect to itself when nobody listens on a port and the system picks the same one for us."""
    try:
        return bool(sock.getsockname() == sock.getpeername())
    except OSError:  # gone again; the first read will tell
        return False
