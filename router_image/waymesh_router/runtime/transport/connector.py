"""Connectors: each maintains one outgoing transport, with back-off, trying all addresses and failover targets."""

from __future__ import annotations

import threading
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from waymesh_router.connections.retries import Retries
from waymesh_router.peers.peer import failed_text
from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.loop import Loop, Timer
from waymesh_router.runtime.tls.endpoints import ConnectorTls
from waymesh_router.runtime.tls.identity import Identity
from waymesh_router.runtime.tls.sockets import TlsSocket, Transport
from waymesh_router.runtime.transport.addresses import (
    SocketAddress,
    family,
    numeric_address,
    peer_text,
    port_number,
    resolve,
)
from waymesh_router.runtime.transport.dialing import DialAttempt

STAGGER_S = 0.25
"""If an address has not answered after this time, the next one is tried in parallel; the first to connect is used."""


class Owner(Protocol):
    """Calls from a connector to the host."""

    def connected(self, connector: Connector, sock: Transport, peer: str, identity: Identity | None) -> None:
        """The transport (and TLS) is established; the socket is not registered. `identity`: by its certificate."""

    def connect_failed(self, connector: Connector, reason: str) -> None:
        """An attempt failed; the next one is scheduled."""


class Connector:
    """One `connector` entity."""

    def __init__(
        self, loop: Loop, attrs: Mapping[str, Any], tls: ConnectorTls | None, owner: Owner, rng: Callable[[], float]
    ) -> None:
        """`rng()` returns a float in [0, 1) for the jitter. Raises HostError for invalid attributes."""
        self.name = str(attrs["name"])
        self.attrs = attrs
        self.targets = configured_targets(self.name, attrs)
        self._loop = loop
        self.tls = tls
        self._owner = owner
        self._target = 0
        self._retries = Retries(rng, loop.now())
        self._round = 0  # results of look-ups from earlier rounds are ignored
        self._resolving = False
        self._addresses: list[SocketAddress] = []
        self._attempts: list[DialAttempt] = []
        self._stagger_timer: Timer | None = None
        self._retry_timer: Timer | None = None
        self._closed = False

    @property
    def peer(self) -> str:
        """`host:port` of the current target, as configured."""
        return peer_text(self.targets[self._target])

    def start(self) -> None:
        """Connect now."""
        self._abort_attempts()
        self._guarded(self._resolve)

    def close(self) -> None:
        """Stop connecting, and abort an attempt in progress. An established transport belongs to the host."""
        self._closed = True
        self._abort_attempts()

    def lost(self) -> None:
        """The established transport has ended: connect again."""
        self._retries.lost(self._loop.now())
        self._schedule_retry()

    def retry(self) -> None:
        """Retry now: the peer may be reachable again, perhaps at another address. No effect while connected."""
        if self._closed:
            return
        if self._retry_timer is not None:
            self.start()
        elif self._attempts and not self._resolving:
            self._guarded(self._resolve)

    def set_failover(self, targets: list[tuple[str, int]]) -> None:
        """Set the targets that the connected peer announced. The configured ones stay first."""
        current = self.targets[self._target]
        configured = configured_targets(self.name, self.attrs)
        self.targets = [*configured, *(target for target in targets if target not in configured)]
        self._target = self.targets.index(current) if current in self.targets else 0

    # ---- name and addresses

    def _resolve(self) -> None:
        """Resolve the target. Names are resolved for each attempt, because a restarted pod has a new address."""
        host, port = self.targets[self._target]
        self._resolving = True
        found = numeric_address(host, port, family(self.attrs))
        if found is not None:
            self._resolved(self._round, [found], None)
            return
        # Each look-up has its own thread: a slow name server must not delay other connectors.
        args = self._round, host, port
        threading.Thread(target=self._resolve_in_thread, args=args, name="resolver", daemon=True).start()

    def _resolve_in_thread(self, number: int, host: str, port: int) -> None:
        """Runs in the thread of the look-up."""
        found: list[SocketAddress] = []
        problem: str | None = None
        try:
            found = resolve(host, port, family(self.attrs))
        except OSError as error:
            problem = f"cannot resolve {host}: {error.strerror or error}"
        self._loop.call_from_thread(lambda: self._guarded(lambda: self._resolved(number, found, problem)))

    def _resolved(self, number: int, addresses: list[SocketAddress], problem: str | None) -> None:
        if number != self._round:  # the result of an earlier attempt
            return
        self._resolving = False
        known = [*self._addresses, *(attempt.address for attempt in self._attempts)]
        self._addresses += [address for address in addresses if address not in known]
        if self._addresses:
            self._next_address()
        elif not self._attempts:
            self._fail(problem or "no address")

    def _next_address(self) -> None:
        """Try the next address; after STAGGER_S without an answer, also the one after it."""
        if self._stagger_timer is not None:
            self._stagger_timer.cancel()
            self._stagger_timer = None
        attempt = DialAttempt(self._loop, self, self._addresses.pop(0), self.targets[self._target][0], self.tls)
        self._attempts.append(attempt)
        if self._addresses:
            self._stagger_timer = self._loop.call_later(STAGGER_S, lambda: self._guarded(self._next_address))
        attempt.start()

    # ---- calls from attempts

    def reached(self, attempt: DialAttempt, sock: Transport) -> None:
        """Use the first address that answers."""
        self._attempts.remove(attempt)
        self._abort_attempts()
        self._retries.connected(self._loop.now())
        self._guarded(lambda: self._owner.connected(self, sock, self.peer, self._identity(sock)))

    def _identity(self, sock: Transport) -> Identity | None:
        return self.tls.profile.identity_of(sock) if self.tls and isinstance(sock, TlsSocket) else None

    def failed(self, attempt: DialAttempt, reason: str) -> None:
        """Try the other addresses."""
        self._attempts.remove(attempt)
        if self._addresses:
            self._guarded(self._next_address)
        elif not self._attempts and not self._resolving:
            self._fail(reason)

    # ---- failures

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step. An internal error in the step counts as a failed attempt, after which the connector retries."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the edge of timers
            self._loop.on_error(f"in connector {self.name}", error)
            self.abandon()

    def abandon(self) -> None:
        """An internal error in an attempt: the attempt counts as failed."""
        self._abort_attempts()
        self._schedule_retry()

    def _fail(self, reason: str) -> None:
        self._owner.connect_failed(self, failed_text(self.peer, reason))
        self._schedule_retry()

    def _schedule_retry(self) -> None:
        """Schedule the next attempt, on the next target."""
        if self._closed:
            return
        self._target = (self._target + 1) % len(self.targets)
        self._retry_timer = self._loop.call_later(self._retries.delay(self._loop.now()), self.start)

    def _abort_attempts(self) -> None:
        """Abort all attempts in progress and cancel timers."""
        self._round += 1
        self._resolving = False
        self._addresses.clear()
        for timer in (self._stagger_timer, self._retry_timer):
            if timer is not None:
                timer.cancel()
        self._stagger_timer = self._retry_timer = None
        for attempt in self._attempts:
            attempt.drop()
        self._attempts.clear()


def configured_targets(name: str, attrs: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The host and port, then the targets of failoverUrls. Raises HostError."""
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
