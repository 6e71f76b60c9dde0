"""The router's host on real sockets: implements `waymesh_router.host.Host` with the event loop."""

from __future__ import annotations

import dataclasses
import socket
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import CONNECTION_FORCED, RESOURCE_LIMIT_EXCEEDED
from waymesh_amqp.states import START
from waymesh_router.core.hang_up import hang_up
from waymesh_router.events.event import Event, at
from waymesh_router.peers.peer import Peer
from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.http.server import HttpServer
from waymesh_router.runtime.log.tracing import Tracing
from waymesh_router.runtime.loop import EPOLLIN, Loop
from waymesh_router.runtime.memory import resident_bytes
from waymesh_router.runtime.policy.host_names import HostNames, numeric_addresses
from waymesh_router.runtime.sasl.services import AuthServices
from waymesh_router.runtime.sasl.users import UserFiles
from waymesh_router.runtime.spool.exporter import FileExporter, Incarnation, check_folder
from waymesh_router.runtime.tls.contexts import password_of
from waymesh_router.runtime.tls.identity import Identity, peer_of
from waymesh_router.runtime.tls.peer_check import PeerCheck
from waymesh_router.runtime.tls.profiles import Profiles
from waymesh_router.runtime.tls.sockets import Transport
from waymesh_router.runtime.tls.transports import MakeIO, connection_io
from waymesh_router.runtime.tokens.profiles import TokenProfiles
from waymesh_router.runtime.transport.connection_io import ConnectionIO
from waymesh_router.runtime.transport.connector import Connector
from waymesh_router.runtime.transport.connectors import Connectors
from waymesh_router.runtime.transport.linger import Lingering
from waymesh_router.runtime.transport.listener import Listener
from waymesh_router.runtime.transport.receive_buffer import ReceiveBuffer
from waymesh_router.runtime.transport.tcp import data_segments_in
from waymesh_router.runtime.transport.tls_threads import TlsThreads
from waymesh_router.runtime.turn import Turn
from waymesh_router.runtime.workers import Workers
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_router.router import Router
    from waymesh_router.runtime.log.log import Log

CLOSE_S = 2.0
"""Time for a peer to answer a close before its transport is closed."""
UNREAD_S = 30.0
"""Time for a slow peer to take the last bytes of its connection."""
PUBLISH_S = 5.0
"""Time for a slow disk to store the last records when the process ends."""

Endpoint = Listener | Connector
Opener = Callable[[str, Peer], "Connection"]


class SocketHost:
    """Listeners, connectors and connections of one router on one loop."""

    def __init__(self, loop: Loop, log: Log, rng: Callable[[], float]) -> None:
        """`rng()`: a float in [0, 1), for the jitter of reconnects."""
        self.loop = loop
        self.log, self.logs, self.log_stats = log.write, log.enabled, log.stats
        self.numeric_addresses, self.password, self.memory_usage = numeric_addresses, password_of, resident_bytes
        self.free_memory: Callable[[], int] = int  # 0 until `RunningRouter` measures it
        self.look_up = HostNames(loop).look_up
        self._server_log = partial(log.write, "SERVER")
        self.incarnation = Incarnation()
        self.host_name = socket.gethostname()
        self.errors = 0  # internal errors; each one is logged with its traceback
        loop.on_error = self.internal_error
        self._log = log
        self._router: Router
        self._profiles = Profiles(self._server_log)
        self.certificates = self._profiles.validities
        self.tokens = TokenProfiles(loop, self._server_log)
        self.users = UserFiles(partial(log.write, "ROUTER"))
        self.auth_services = AuthServices(loop, self._profiles, partial(log.write, "AUTHSERVICE"), self._resume)
        self._listeners: dict[str, Listener] = {}
        self._connections: dict[Connection, ConnectionIO] = {}
        self._connectors = Connectors(loop, self._profiles, rng, self, self._close_all)
        self.connect, self.disconnect = self._connectors.connect, self._connectors.disconnect
        self.retry, self.set_failover = self._connectors.retry, self._connectors.set_failover
        self._peer_check = PeerCheck(self._profiles, self._listeners, self._connections, self._close)
        self._buffer = ReceiveBuffer()
        self._turn = Turn(self._connections, self._buffer, self.internal_error)
        self._workers = Workers(loop)
        self._http = HttpServer(self, self._workers)
        self._tracing = Tracing(log, loop)
        self.traced = self._tracing.own
        self._starting, self.lingering = False, Lingering(loop)
        self.threads: TlsThreads | None = None  # those that do TLS

    def attach(self, router: Router) -> None:
        """Set the router, before the loop runs."""
        self._router = self._http.router = self._turn.router = router
        self._log.on_serious = router.logged
        self.loop.on_wake, self.turn = self._turn.begin, self._turn.end

    # ---- requests of the router (Host)
    def ssl_profile(self, attrs: Mapping[str, Any]) -> None:
        """Add an `sslProfile`. Raises HostError (an OSError) if its files are unusable."""
        self._profiles.add(attrs)

    def update_ssl_profile(self, attrs: Mapping[str, Any]) -> None:
        """Change an `sslProfile` for all its users. Raises HostError, without any change, if it is unusable for one."""
        endpoints: list[Endpoint] = [*self._listeners.values(), *self._connectors.all()]
        users = [*(endpoint.tls for endpoint in endpoints if endpoint.tls), *self.auth_services.tls()]
        self._profiles.update(attrs, [user.check for user in users if user.uses(attrs["name"])])
        self.loop.call_later(0, self._peer_check.poll)  # later: the request arrived on one of the connections

    def remove_ssl_profile(self, name: str) -> None:
        """Remove an `sslProfile` that has no users."""
        self._profiles.remove(name)

    def listen(self, attrs: Mapping[str, Any]) -> None:
        """Start a listener. Raises HostError (an OSError) if its port or certificate is unusable."""
        tls = self._profiles.of_listener(attrs)
        accepted = self._http.accepting(attrs) if attrs.get("http") else self.accepted
        try:
            listener = Listener(self.loop, attrs, tls, accepted, self._server_log)
            if not self._starting:
                listener.listen()
        except HostError as error:  # its port is in use, most often
            self._server_log("error", str(error))
            raise
        self._listeners[listener.name] = listener
        self.loop.call_later(0, self._peer_check.check)

    def hold_listeners(self) -> None:
        """Let new listeners wait for `open_listeners`, as a later entity may have an error that ends the start."""
        self._starting = True

    def open_listeners(self) -> None:
        """Open those that wait, and later ones at once. Raises HostError (an OSError)."""
        self._starting = False
        for listener in self._listeners.values():
            listener.listen()

    def update_listener(self, attrs: Mapping[str, Any]) -> None:
        """Change a listener. Raises HostError, without any change, if a profile is unusable with the new attributes."""
        self._listeners[attrs["name"]].change(attrs, self._profiles.of_listener(attrs))
        self.loop.call_later(0, self._peer_check.check)

    def unlisten(self, name: str) -> None:
        """Stop a listener. As in Dispatch, connections that it accepted stay open."""
        if name in self._listeners:
            self._listeners.pop(name).close()

    def opened(self, conn: Connection) -> None:
        """The peer of a connection at a listener sent its open: the connection no longer counts as opening."""
        io = self._connections.get(conn)
        if io is not None:
            self._leave_opening(io)
            self.loop.raise_priority(io.fd)

    def segments_in(self, conn: Connection) -> int:
        """TCP data segments received from the peer so far, including out-of-order ones; 0 if unknown."""
        io = self._connections.get(conn)
        return 0 if io is None else data_segments_in(io.sock)

    def offload(self, conn: Connection, work: Callable[[], bytes]) -> bool:
        """Run `work` in a thread, then let `conn` continue with its result; False if too many are waiting."""
        info = self._connections[conn].info
        workers = self.tokens.workers(info.endpoint.attrs) or self._workers
        host, resume = info.peer.address, partial(self._resume, conn)
        return workers.submit(host, work, lambda: conn in self._connections, resume)

    def ports(self, name: str) -> list[int]:
        """The ports of a listener."""
        return self._listeners[name].ports

    def configure_log(self, attrs: Mapping[str, Any]) -> None:
        """Apply a `log` entity. Raises SchemaError if its levels or its output are unusable."""
        self._log.configure(attrs)
        self._tracing.configured(self._connections.values)

    def trace(self, conn: Connection, on: bool) -> None:
        """Start or stop logging the frames of a connection."""
        if conn in self._connections:
            self._tracing.switch(self._connections[conn], on)

    def recent_log(self, limit: int | None) -> list[tuple[Any, ...]]:
        """The most recent lines: module, level, text, file, line, seconds since 1970."""
        return [dataclasses.astuple(line) for line in self._log.recent(limit)]

    def check_telemetry(self, attrs: Mapping[str, Any]) -> None:
        """Raises HostError (an OSError) if the folder is unusable now."""
        check_folder(attrs["path"])

    def exporter(self, attrs: Mapping[str, Any], router_id: str) -> FileExporter:
        """Create an exporter of records; while the folder is unusable, they are dropped."""
        return FileExporter(attrs, router_id, self)

    def end_telemetry(self) -> None:
        """The router creates no more records: wait, at most PUBLISH_S, until all are published."""
        if self.incarnation.spool is not None:
            self.incarnation.spool.wait(PUBLISH_S)

    def internal_error(self, where: str, error: Exception) -> None:
        """Count an internal error, and log it with its traceback."""
        self.errors += 1
        self.log("SERVER", "error", f"internal error {where}: {''.join(traceback.format_exception(error)).rstrip()}")

    def drop(self, conn: Connection, reason: str) -> None:
        """Close the transport of a connection at once."""
        io = self._connections.get(conn)
        if io is not None:
            self.ended(io, reason)

    # ---- calls from listeners and connectors

    def accepted(
        self, listener: Listener, sock: Transport, peer: str, identity: Identity | None, make: MakeIO = connection_io,
        seen: Transport | None = None,
    ) -> None:  # fmt: skip
        """A client's transport is ready for AMQP; `identity`: by its certificate; `seen`: what it uses, if not
        `sock`."""
        self._adopt(listener, sock, peer_of(seen or sock, peer, identity), self._router.accepted, make)

    def connected(self, connector: Connector, sock: Transport, peer: str, identity: Identity | None) -> None:
        """A connector's transport is ready for AMQP; `identity`: by the peer's certificate."""
        self._adopt(connector, sock, peer_of(sock, peer, identity), self._router.connected, connection_io)

    def connect_failed(self, connector: Connector, reason: str) -> None:
        """An attempt of a connector failed; it retries by itself."""
        self._router.connect_failed(connector.name, reason)

    # ---- calls from connections

    def ended(self, io: ConnectionIO, reason: str) -> None:
        """The transport has ended."""
        self._release(io)
        io.sock.close()
        self._report_lost(io, reason)

    def finished(self, io: ConnectionIO, reason: str = "closed") -> None:
        """Both sides have sent everything: wait for the peer to close, for a limited time. If a socket with unread
        input is closed, the kernel resets the connection, and the peer loses the last bytes (most often an error)."""
        self._release(io)
        self.lingering.close(io.sock)
        self._report_lost(io, reason)

    def last_bytes_wait(self, io: ConnectionIO) -> None:
        """A closed connection has bytes that its peer does not take: end it after UNREAD_S."""
        self.loop.call_later(UNREAD_S, lambda: self.ended(io, "the peer does not read") if io.open else None)

    def failed(self, io: ConnectionIO, error: Exception) -> None:
        """An internal error on this connection: close it; others are not affected."""
        self.internal_error(f"on the connection with {io.info.peer.host}", error)
        self.ended(io, f"internal error: {error}")

    def await_events(self, fd: int, mask: int) -> None:
        """Wait for other events on a connection."""
        self.loop.modify(fd, mask)

    # ---- the process
    def reload(self) -> None:
        """SIGHUP: reload all certificates and users."""
        self._profiles.reload()
        self.users.reload()
        self._peer_check.poll()

    def poll(self) -> None:
        """Reload certificates and users whose files have changed."""
        self._profiles.poll()
        self.users.poll()
        self._peer_check.poll()

    def stop(self, reason: str) -> None:
        """Close everything gracefully, then stop the loop, after CLOSE_S at the latest."""
        self._turn.stopping = self._stop_if_closed
        for listener in self._listeners.values():
            listener.close()
        self._connectors.close()
        self._http.close()
        for io in list(self._connections.values()):
            self._close(io, reason)
        self.loop.call_later(CLOSE_S, self.loop.stop)

    # ---- private

    def _stop_if_closed(self) -> None:
        if not (self._connections or self.lingering.count):
            self.loop.stop()

    def _resume(self, conn: Connection, answer: bytes | Exception) -> None:
        io = self._connections.get(conn)
        if io is None:
            return
        if isinstance(answer, Exception):
            self.failed(io, answer)
        else:
            io.resume(answer)

    def _adopt(self, endpoint: Endpoint, sock: Transport, peer: Peer, open_: Opener, make: MakeIO) -> None:
        """Create the connection of a transport. An internal error here affects this transport only."""
        try:
            conn = open_(endpoint.name, peer)
        except HostError as error:
            who = at(endpoint.name, peer.host, isinstance(endpoint, Connector))
            text = f"connection with {peer.host} refused: {error}"
            self.log("SERVER", "error", text, Event(LogEvent.CONNECTION_REFUSED, who, {"reason": str(error)}))
            if isinstance(endpoint, Connector):
                self._router.connect_failed(endpoint.name, str(error))
            self._give_up(endpoint, sock)
            return
        except Exception as error:  # noqa: BLE001 - the connection edge
            self.internal_error(f"with the new connection of {peer.host}", error)
            self._give_up(endpoint, sock)
            return
        if self.threads is not None and make is connection_io:
            make = self.threads.connection_io
        io = make(self, sock, conn, self._buffer)
        io.info = _Info(endpoint, peer)
        if isinstance(endpoint, Listener):
            endpoint.opening.passed_on(io.fd, partial(self._end_opening, io))
        self._connections[conn] = io
        self._tracing.apply(io)
        role = endpoint.attrs.get("role", "normal")
        if role == "inter-router":
            io.keep_little_unsent()
        elif role == "normal" and isinstance(endpoint, Listener):
            io.limit_unsent()
        self.loop.register(io.fd, io, EPOLLIN, low_priority=isinstance(endpoint, Listener))
        io.flush()

    def _give_up(self, endpoint: Endpoint, sock: Transport) -> None:
        """Close a transport for which no connection was created."""
        if isinstance(endpoint, Listener):
            endpoint.opening.remove(sock.fileno())
        self.loop.unregister(sock.fileno())
        sock.close()
        if isinstance(endpoint, Connector):
            endpoint.lost()

    def _leave_opening(self, io: ConnectionIO) -> None:
        if isinstance(io.info.endpoint, Listener):
            io.info.endpoint.opening.remove(io.fd)

    def _end_opening(self, io: ConnectionIO, reason: str) -> None:
        """End a connection whose open has not arrived; with a close if AMQP frames can already be sent."""
        io.conn.fail(RESOURCE_LIMIT_EXCEEDED, reason)
        if io.conn.state != START:
            io.flush()
        if io.open:
            self.ended(io, reason)

    def _release(self, io: ConnectionIO) -> None:
        io.open = False
        self._leave_opening(io)
        self._connections.pop(io.conn, None)
        self._tracing.forget(io)
        self.loop.unregister(io.fd)

    def _report_lost(self, io: ConnectionIO, reason: str) -> None:
        try:
            self._router.lost(io.conn, reason)
        except Exception as error:  # noqa: BLE001 - the connection edge
            self.internal_error(f"after the connection with {io.info.peer.host} ended", error)
        endpoint = io.info.endpoint
        if isinstance(endpoint, Connector):
            endpoint.lost()

    def _close_all(self, endpoint: Endpoint, reason: str) -> None:
        for io in list(self._connections.values()):
            if io.info.endpoint is endpoint:
                self._close(io, reason)

    def _close(self, io: ConnectionIO, reason: str, condition: str = "") -> None:
        endpoint = io.info.endpoint
        if condition or isinstance(endpoint, Connector) or endpoint.attrs.get("role") == "inter-router":
            io.conn.close(condition or CONNECTION_FORCED, reason)
        else:
            hang_up(io.conn, reason)
        io.flush()
        self.loop.call_later(CLOSE_S, lambda: self.ended(io, reason) if io.open else None)


@dataclasses.dataclass(slots=True)
class _Info:
    """What the host stores about a connection."""

    endpoint: Endpoint
    peer: Peer
