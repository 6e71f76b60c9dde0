"""Events of the engine. The router's core subclasses `Handler`; in compiled code each call is a C virtual call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if cython.compiled:
    from cython.cimports.waymesh_amqp.states import OPEN_RCVD
else:
    from waymesh_amqp.states import OPEN_RCVD

from waymesh_amqp.errors import MESSAGE_SIZE_EXCEEDED

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.delivery import Delivery
    from waymesh_amqp.incoming_flow import IncomingFlow
    from waymesh_amqp.link import Link
    from waymesh_amqp.performatives import Attach, ErrorInfo, Open
    from waymesh_amqp.session import Session
    from waymesh_amqp.transfer import IncomingTransfer


class Handler:
    """Receives the events of many connections."""

    def __init__(self) -> None:
        self.dirty: list[Connection] = []  # connections to flush
        # Connections that ended, or with ended sessions, with more links than `links_at_once`: the owner calls
        # `end_links` of each until it returns True, and only then removes it. The dict serves as an ordered set.
        self.ending: dict[Connection, None] = {}

    # -- cold events
    def on_open(self, connection: Connection, performative: Open) -> None:
        """The peer's open arrived; answer with `connection.send_open()` or `connection.close(…)`."""
        if connection.state == OPEN_RCVD:
            connection.send_open()

    def on_close(self, connection: Connection, error: ErrorInfo | None) -> None:
        """The connection has ended, orderly or not, after its sessions and links. Called once."""

    def on_begin(self, session: Session) -> None:
        """A session is mapped."""

    def on_held_window(self, session: Session) -> cython.bint:
        """Incoming links hold a session and its window is used up. True: admit a few more frames."""
        return False

    def session_window(self, session: Session) -> cython.uint:
        """The incoming window in frames for the next flow, with `ConnectionSettings.window_opens`."""
        window: cython.uint = session.window
        return window

    def new_link(self, session: Session) -> Link:
        """Create the object for a link that the peer attaches."""
        raise NotImplementedError

    def on_attach(self, link: Link, performative: Attach) -> None:
        """The peer attached a link: answer with `link.accept(…)` or `link.refuse(…)`. Or it answered our attach."""

    def on_detach(self, link: Link, error: ErrorInfo | None) -> None:
        """The link has ended: detached by the peer, or lost with its session or connection. Called once."""

    # -- hot events
    def on_transfer(self, link: Link, transfer: IncomingTransfer) -> None:
        """A transfer frame. `transfer` is valid until this returns: the next frame is read into the same object.

        The delivery's id and settled flag are `link.transfer_id` and `link.transfer_settled`.
        """

    def on_oversized(self, link: Link, transfer: IncomingTransfer) -> None:
        """By this frame, a message exceeds `link.max_message_size`. `on_transfer` gets its later frames only."""
        link.detach(MESSAGE_SIZE_EXCEEDED, f"messages over {link.max_message_size} octets are refused")

    def on_abort(self, link: Link) -> None:
        """The peer aborted the delivery in progress on the link. Spec: 2.7.5."""

    def on_outcome(self, delivery: Delivery, settled: cython.bint, state: bytes) -> None:
        """The receiver of an outgoing delivery reported a state (b"" for none). A settled one has left the ring."""

    def on_sender_outcome(self, delivery: Delivery, settled: cython.bint, state: bytes) -> None:
        """The sender of an incoming delivery reported a state or settled it."""

    def on_credit(self, link: Link) -> None:
        """An outgoing link may be ready: it got credit or session window, or a delivery was completed.

        Send waiting deliveries, then call `link.finish_drain()`."""
        link.finish_drain()

    def on_sender_flow(self, link: Link) -> None:
        """The sender of a routed link sent its delivery-count: it may have used up its credit."""

    def on_flow_details(self, link: Link, flow: IncomingFlow) -> None:
        """A flow for a routed link has `available`, `echo` or properties, to be passed on. Spec: 2.7.4.

        Called before all other events of the flow. `flow` is valid until this returns."""

    def on_writable(self, connection: Connection) -> None:
        """A connection's unsent output fell below the low-water mark after it was above the high-water mark."""
