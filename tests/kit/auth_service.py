"""An AMQP server that decides on SASL exchanges, on real sockets: each connection in a thread of its own."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.kit.certificates import KeyPair
from tests.kit.ports import free_port
from waymesh_amqp.performatives import (
    Close,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    decode_performative,
    encode_frame,
)
from waymesh_amqp.sasl import Challenge, SaslServer, UserFile, make_line
from waymesh_amqp.types import Array, Symbol

AMQP = b"AMQP\x00\x01\x00\x00"
SASL = b"AMQP\x03\x01\x00\x00"
STRINGS = 0xB1


class Gone(Exception):
    """The router disconnected."""


@dataclass
class Link:
    """One connection of a router."""

    sock: socket.socket
    data: bytes = b""

    def read(self, count: int) -> bytes:
        """Exactly that many bytes."""
        while len(self.data) < count:
            data = self.sock.recv(65536)
            if not data:
                raise Gone
            self.data += data
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def frame(self) -> Any:
        """The next performative."""
        head = self.read(8)
        body = self.read(int.from_bytes(head[:4], "big") - 8)
        return decode_performative(body, 0, len(body))[0]

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def put(self, performative: Any) -> None:
        self.send(encode_frame(0, performative))


Script = Callable[["AuthServer", Link], None]


@dataclass
class AuthServer:
    """`users`: passwords. `properties`: of its open, by user. `script`: what it does instead of the right thing."""

    pair: KeyPair | None = None
    users: dict[str, str] = field(default_factory=lambda: {"alice": "secret"})
    mechanisms: tuple[str, ...] = ("SCRAM-SHA-256", "PLAIN")
    properties: dict[str, Any] | None = None
    script: Script | None = None

    def __post_init__(self) -> None:
        self.opens: list[Open] = []
        self.inits: list[SaslInit] = []
        self.links = 0
        """Connections that are open."""
        self.served = 0
        self._file = UserFile.parse("\n".join(make_line(*user, "plain") for user in self.users.items()))
        self._context: ssl.SSLContext | None = None
        if self.pair is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(self.pair.cert, self.pair.key)
        self.port = free_port()
        self._listening = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listening.accept()
                self.links += 1
                self.served += 1
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError, Gone):
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_side=True)
            link = Link(sock)
            (self.script or AuthServer.decide)(self, link)
        sock.close()
        self.links -= 1

    def decide(self, link: Link) -> None:
        """One whole exchange, as a service should hold it."""
        sasl = self.offer(link)
        init = link.frame()
        self.inits.append(init)
        step = sasl.init(init.mechanism, init.initial_response)
        while isinstance(step, Challenge):
            link.put(SaslChallenge(challenge=step.data))
            step = sasl.response(link.frame().response)
        link.put(SaslOutcome(code=step.code, additional_data=step.data))
        if step.code == 0:
            self.name(link, {"authenticated-identity": {"sub": step.user}})

    def offer(self, link: Link) -> SaslServer:
        """The header and the mechanisms."""
        link.read(8)
        sasl = SaslServer(self.mechanisms, self._file)
        link.send(SASL)
        link.put(SaslMechanisms(sasl_server_mechanisms=list(self.mechanisms)))
        return sasl

    def name(self, link: Link, identity: dict[str, Any]) -> None:
        """Header, opens, closes."""
        assert link.read(8) == AMQP
        self.opens.append(link.frame())
        link.send(AMQP)
        found = identity | (self.properties or {})
        link.put(Open(container_id="service", properties={Symbol(key): value for key, value in found.items()}))
        assert isinstance(link.frame(), Close)
        link.put(Close())


def rights(**allowed: str) -> dict[Symbol, Array]:
    """The value of `address-authz`: `rights(orders="send recv")`."""
    return {Symbol(address): Array(STRINGS, words.split()) for address, words in allowed.items()}
