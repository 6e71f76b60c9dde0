"""A tiny AMQP peer that relays between a sender and its receivers and can do one thing wrong at an exact point.

A fake is right here, for what is tested is that the load generator sees the fault. It uses our codec, not the load
generator's, so each checks the other's bytes.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from tests.kit.waiting import DEADLINE_S
from waymesh_amqp.performatives import (
    Attach,
    Begin,
    Detach,
    Disposition,
    ErrorInfo,
    Flow,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Transfer,
    decode_performative,
    encode_frame,
)
from waymesh_amqp.types import Described, ULong

ACCEPTED, RELEASED = 0x24, 0x26
_SASL_HEADER, _AMQP_HEADER = b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x01\x00\x00"
_WINDOW = 0x7FFFFFFF


@dataclass
class Faults:
    """What the peer does wrong. `deliver(n, payload)`: what to deliver in place of the n-th message (from 0)."""

    deliver: Callable[[int, bytes], list[bytes]] = lambda _, payload: [payload]
    outcome: int = ACCEPTED
    settle_times: int = 1
    refuse: str | None = None      # detach senders with this condition
    early_credit: bool = False


@dataclass
class Peer:
    """One connection, with the one link on it."""

    socket: socket.socket
    data: bytearray = field(default_factory=bytearray)
    out: bytearray = field(default_factory=bytearray)
    attach: Attach | None = None
    max_frame: int = 512
    delivered: int = 0
    transfers: int = 0
    part: bytearray = field(default_factory=bytearray)
    part_id: int = 0
    settled: bool = False
    credit_frame: Flow | None = None

    @property
    def address(self) -> str | None:
        """Where its link leads."""
        if self.attach is None:
            return None
        terminus = self.attach.source if self.attach.role else self.attach.target
        return terminus.address if terminus else None


class FakeRouter:
    """Runs in a thread of its own from `with` to the end of it; `port` is where it listens."""

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._stop, self._stopped = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._peers: list[Peer] = []
        self._origin: dict[tuple[int, int], tuple[Peer, int]] = {}  # receiver and delivery-id → sender and delivery-id
        self._arrived = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._stopped, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.send(b"x")
        self._thread.join(DEADLINE_S)
        for peer in self._peers:
            peer.socket.close()
        for other in (self._listener, self._stop, self._stopped, self._selector):
            other.close()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._stopped:
                    return
                if key.fileobj is self._listener:
                    peer = Peer(self._listener.accept()[0])
                    self._peers.append(peer)
                    self._selector.register(peer.socket, selectors.EVENT_READ, peer)
                else:
                    self._read(key.data)
            for peer in self._peers:
                if peer.out:
                    peer.socket.sendall(peer.out)
                    peer.out.clear()

    def _read(self, peer: Peer) -> None:
        try:
            data = peer.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            self._selector.unregister(peer.socket)
            self._peers.remove(peer)
            peer.socket.close()
            self._withdraw(peer)
            return
        peer.data += data
        while len(peer.data) >= 8:
            if peer.data.startswith(b"AMQP"):
                header = bytes(peer.data[:8])
                peer.out += header
                if header == _SASL_HEADER:
                    peer.out += encode_frame(0, SaslMechanisms(["ANONYMOUS"]))
                del peer.data[:8]
                continue
            size = int.from_bytes(peer.data[:4], "big")
            if len(peer.data) < size:
                return
            frame = bytes(peer.data[:size])
            del peer.data[:size]
            if size > 8:
                performative, payload_at = decode_performative(frame, 8, size)
                self._on_frame(peer, performative, frame[payload_at:])

    def _on_frame(self, peer: Peer, frame: Any, payload: bytes) -> None:
        match frame:
            case SaslInit():
                peer.out += encode_frame(0, SaslOutcome(0))
            case Open():
                peer.max_frame = frame.max_frame_size or 65536
                peer.out += encode_frame(0, Open(container_id="fake", max_frame_size=512))
            case Begin():
                begin = Begin(remote_channel=0, next_outgoing_id=0, incoming_window=_WINDOW, outgoing_window=_WINDOW)
                peer.out += encode_frame(0, begin)
            case Attach():
                self._on_attach(peer, frame)
            case Flow() if peer.attach and peer.attach.role:
                peer.credit_frame = frame
                self._grant(peer)
            case Transfer():
                self._on_transfer(peer, frame, payload)
            case Disposition() if frame.role:
                self._on_disposition(peer, frame)
            case Detach():
                peer.out += encode_frame(0, Detach(handle=0, closed=True))
                self._withdraw(peer)

    def _on_attach(self, peer: Peer, frame: Attach) -> None:
        peer.attach = frame
        count = None if frame.role is False else 0
        peer.out += encode_frame(0, replace(frame, role=not frame.role, initial_delivery_count=count))
        if frame.role is False and self.faults.refuse:
            error = ErrorInfo(self.faults.refuse, "not here")
            peer.out += encode_frame(0, Detach(handle=0, closed=True, error=error))
        elif frame.role is False and self.faults.early_credit:
            peer.out += encode_frame(0, self._credit(0, 10))
        elif frame.role is False:
            for other in self._others(peer, role=True):
                self._grant(other)

    def _others(self, peer: Peer, *, role: bool) -> list[Peer]:
        return [p for p in self._peers if p.attach and p.attach.role is role and p.address == peer.address]

    def _grant(self, receiver: Peer) -> None:
        flow = receiver.credit_frame
        if flow is None:
            return
        for sender in self._others(receiver, role=False):
            sender.out += encode_frame(0, self._credit(flow.delivery_count or 0, flow.link_credit or 0))

    def _withdraw(self, peer: Peer) -> None:
        if peer.attach and peer.attach.role:
            for sender in self._others(peer, role=False):
                sender.out += encode_frame(0, replace(self._credit(0, 0), drain=True))

    @staticmethod
    def _credit(count: int, credit: int) -> Flow:
        return Flow(
            next_incoming_id=0,
            incoming_window=_WINDOW,
            next_outgoing_id=0,
            outgoing_window=_WINDOW,
            handle=0,
            delivery_count=count,
            link_credit=credit,
        )

    def _on_transfer(self, sender: Peer, frame: Transfer, payload: bytes) -> None:
        if not sender.part and frame.delivery_id is not None:
            sender.part_id = frame.delivery_id
            sender.settled = bool(frame.settled)
        sender.part += payload
        if frame.more:
            return
        whole, n = bytes(sender.part), self._arrived
        sender.part.clear()
        self._arrived += 1
        wanted = self.faults.deliver(n, whole)
        for receiver in self._others(sender, role=True):
            for one in wanted:
                self._deliver(receiver, sender, one)
        if not wanted and not sender.settled:
            self._settle(sender, sender.part_id)

    def _deliver(self, receiver: Peer, sender: Peer, payload: bytes) -> None:
        number = receiver.delivered
        receiver.delivered += 1
        self._origin[id(receiver), number] = (sender, sender.part_id)
        room = receiver.max_frame - 64
        pieces = [payload[at : at + room] for at in range(0, len(payload), room)] or [b""]
        for k, piece in enumerate(pieces):
            more = k + 1 < len(pieces)
            if k == 0:
                tag = number.to_bytes(4, "big")
                transfer = Transfer(0, number, tag, 0, sender.settled, more)
            else:
                transfer = Transfer(0, more=more)
            receiver.out += encode_frame(0, transfer, piece)

    def _on_disposition(self, receiver: Peer, frame: Disposition) -> None:
        last = frame.first if frame.last is None else frame.last
        for number in range(frame.first, last + 1):
            sender, own = self._origin[id(receiver), number]
            self._settle(sender, own)

    def _settle(self, sender: Peer, number: int) -> None:
        state = Described(ULong(self.faults.outcome), [])
        for _ in range(self.faults.settle_times):
            sender.out += encode_frame(0, Disposition(role=True, first=number, settled=True, state=state))
