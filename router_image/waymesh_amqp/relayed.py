"""SASL exchanges that are relayed to another server: the side toward the client, and the side toward the server.
Spec: 5.3

A forwarded frame is answered later: until then, the connection waits for `Connection.resume`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from waymesh_amqp.bearer import MAX_FRAME
from waymesh_amqp.negotiation import SaslServerExchange
from waymesh_amqp.performatives import (
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslPerformative,
    SaslResponse,
    encode_frame,
)
from waymesh_amqp.sasl import AUTH, OK, SYS, SYS_TEMP, SaslServer

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection

MAX_MECHANISMS = 32
"""Mechanisms of the server that may be offered to clients."""


@dataclass(frozen=True, slots=True)
class Permissions:
    """The only addresses that a client may send to and receive from; a `*` at the end matches any suffix."""

    targets: tuple[str, ...]
    sources: tuple[str, ...]


class Service(Protocol):
    """The connection of one exchange to the server. It calls the exchange's methods later, never within these calls."""

    def start(self, exchange: RelayedServerExchange, connection: Connection) -> None:
        """Connect to the server."""

    def send(self, frame: SaslInit | SaslResponse) -> None:
        """Forward a frame of the client."""

    def drop(self) -> None:
        """The exchange has ended: disconnect. May be called repeatedly."""


class RelayedServerExchange:
    """The server side toward one client. The methods for answers return the bytes to resume the connection with.

    `local`: mechanisms that are handled here and never by the service. `allowed`: None for all mechanisms.
    """

    max_frame = MAX_FRAME

    def __init__(
        self, service: Service, local: SaslServer, allowed: Sequence[str] | None = None, refused: Collection[str] = ()
    ) -> None:
        self._service = service
        self._local = local
        self._allowed = allowed
        self._refused = refused
        self._offered: list[str] = []
        self._lost = ""
        self.permissions: Permissions | None = None
        self.succeeded = False
        self.failed = ""
        self.user: str | None = None
        self.groups: tuple[str, ...] = ()
        self.expires_at = math.inf
        self.mechanism = ""

    # ---- the client
    def begin(self, connection: Connection) -> None:
        """The client requests SASL: get the mechanisms of the service."""
        self._service.start(self, connection)

    def own(self, frame: SaslPerformative) -> SaslServerExchange | None:
        """The exchange that replaces this one if the client chooses a local mechanism."""
        if self.mechanism or not isinstance(frame, SaslInit) or frame.mechanism not in self._local.offer():
            return None
        self._service.drop()
        return SaslServerExchange(self._local)

    def take(self, frame: SaslPerformative) -> bytes | None:
        """Handle a frame of the client. Returns None if it was forwarded, else the answer."""
        if isinstance(frame, SaslInit) and not self.mechanism:
            self.mechanism = frame.mechanism
            if frame.mechanism not in self._offered:
                return self._fail(AUTH, f"SASL {frame.mechanism} was not offered")
        elif not isinstance(frame, SaslResponse) or not self.mechanism:
            return self._fail(AUTH, f"unexpected {type(frame).__name__} in the SASL exchange")
        if self._lost:
            return self._fail(SYS_TEMP, self._lost)
        self._service.send(frame)
        return None

    def drop(self) -> None:
        """The client has disconnected."""
        self._service.drop()

    # ---- the service
    def offer(self, names: Sequence[str]) -> bytes:
        """Offer the mechanisms of the service."""
        own = self._local.offer()
        self._offered = [name for name in names if self._allows(name) and name not in own][:MAX_MECHANISMS]
        if not (own or self._offered):
            return self._fail(SYS_TEMP, "the service has no SASL mechanism that the listener allows")
        return encode_frame(0, SaslMechanisms(sasl_server_mechanisms=[*own, *self._offered]))

    def challenge(self, data: bytes) -> bytes:
        """Forward a challenge of the service."""
        return encode_frame(0, SaslChallenge(challenge=data))

    def refuse(self, code: int, data: bytes | None) -> bytes:
        """Forward an outcome of the service other than ok."""
        return self._fail(code if OK < code <= SYS_TEMP else SYS, f"SASL {self.mechanism} authentication failed", data)

    def admit(self, user: str, data: bytes | None, permissions: Permissions | None) -> bytes:
        """Forward the outcome ok of the service."""
        self.succeeded = True
        self.user = user
        self.permissions = permissions
        return encode_frame(0, SaslOutcome(code=OK, additional_data=data))

    def lose(self, reason: str) -> bytes:
        """The service has failed. A client that has not chosen a mechanism yet may still log in locally."""
        self._lost = reason
        own = self._local.offer()
        if own and not self._offered and not self.mechanism:
            return encode_frame(0, SaslMechanisms(sasl_server_mechanisms=own))
        return self._fail(SYS_TEMP, reason)

    def fail_next_step(self, reason: str) -> None:
        """The service has failed while no answer is due: the client's next frame gets the error."""
        self._lost = reason

    def _allows(self, name: str) -> bool:
        return name not in self._refused and (self._allowed is None or name in self._allowed)

    def _fail(self, code: int, reason: str, data: bytes | None = None) -> bytes:
        self.failed = reason
        return encode_frame(0, SaslOutcome(code=code, additional_data=data))


class RelayedClientExchange:
    """The client side toward the service. `told` is called with each frame of the service, while it is being read."""

    max_frame = MAX_FRAME

    def __init__(self, told: Callable[[SaslPerformative], None], hostname: str | None) -> None:
        self._told = told
        self._hostname = hostname
        self._chosen = False
        self.succeeded = False
        self.failed = ""
        self.user: str | None = None
        self.groups: tuple[str, ...] = ()
        self.expires_at = math.inf
        self.mechanism = ""

    def take(self, frame: SaslPerformative) -> bytes | None:
        """Handle a frame of the service. None: the client's answer follows."""
        if isinstance(frame, SaslOutcome) and self.mechanism:
            if frame.code == OK:
                self.succeeded = True
            else:
                self.failed = f"outcome {frame.code}"
            self._told(frame)
            return b""
        known = isinstance(frame, SaslChallenge) and self.mechanism
        if not known and not (isinstance(frame, SaslMechanisms) and not self._chosen):
            self.failed = f"unexpected {type(frame).__name__} in the SASL exchange"
            return b""
        self._chosen = True
        self._told(frame)
        return None

    def answer(self, frame: SaslInit | SaslResponse) -> bytes:
        """The bytes to resume the connection with, for a frame of the client."""
        if isinstance(frame, SaslInit):
            self.mechanism = frame.mechanism
            frame = SaslInit(
                mechanism=frame.mechanism, initial_response=frame.initial_response, hostname=self._hostname
            )
        return encode_frame(0, frame)
