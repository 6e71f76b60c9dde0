"""Events of the engine. The router's core subclasses `Handler`; compiled, each call is a C virtual call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if cython.compiled:
    from cython.cimports.waymesh_amqp.states import OPEN_RCVD
else:
    from waymesh_amqp.states import OPEN_RCVD

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.delivery import Delivery
    from waymesh_amqp.link import Link
    from waymesh_amqp.performatives import Attach, ErrorInfo, Open
    from waymesh_amqp.session import Session
    from waymesh_amqp.transfer import IncomingTransfer


class Handler:
    """Receives the events of many connections."""

    def __init__(self) -> None:
        self.dirty: list[Connection] = []  # those with something to flush
        # Connections that are over, or have sessions that are, with more links than their `links_at_once`: the owner
        # calls `end_links` of each until it returns True, and only then removes it. A dict as a set with an order.
        self.ending: dict[Connection, None] = {}

    # -- cold events
    def on_open(self, connection: Connection, performative: Open) -> None:
        """The peer's open arrived; answer with `connection.send_open()` or `connection.close(…)`."""
        if connection.state == OPEN_RCVD:
            connection.send_open()

    def on_close(self, connection: Connection, error: ErrorInfo | None) -> None:
        """The connection is over, orderly or not; its sessions and links are detached already. Called once."""

    def on_begin(self, session: Session) -> None:
        """A session is mapped."""

    def on_held_window(self, session: Session) -> cython.bint:
        """Incoming links hold a session and its window is used up. True: let a few frames in nevertheless."""
        return False

    def new_link(self, session: Session) -> Link:
        """Make the object for a link that the peer attaches."""
        raise NotImplementedError

    def on_attach(self, link: Link, performative: Attach) -> None:
        """The peer attached: answer with `link.accept(…)` or `link.refuse(…)`; or it answered our attach."""

    def on_detach(self, link: Link, error: ErrorInfo | None) -> None:
        """The link is gone: detached by the peer, or lost with its session or connection. Called once."""

    # -- hot events
    def on_transfer(self, link: Link, transfer: IncomingTransfer) -> None:
        """A transfer frame. `transfer` is valid until this returns: the next frame is read into the same object.

        The delivery's id and settled flag are `link.transfer_id` and `link.transfer_settled`.
        """

    def on_abort(self, link: Link) -> None:
        """The delivery that was arriving on the link was aborted. Spec: 2.7.5."""

    def on_outcome(self, delivery: Delivery, settled: cython.bint, state: bytes) -> None:
        """The receiver of an outgoing delivery reported a state (b"" for none). Settled: it is out of the ring."""

    def on_sender_outcome(self, delivery: Delivery, settled: cython.bint, state: bytes) -> None:
        """The sender of an incoming delivery reported a state or settled it."""

    def on_credit(self, link: Link) -> None:
        """An outgoing link may have become ready: credit, session window or a finished delivery.

        Send what there is, then end with `link.finish_drain()`."""
        link.finish_drain()

    def on_sender_flow(self, link: Link) -> None:
        """The sender of a routed link sent its delivery-count: it may have used up its credit."""

    def on_flow_details(self, link: Link, fields: bytes, count: cython.int) -> None:
        """The `count` encoded fields behind link-credit in a flow for a routed link. Spec: 2.7.4.

        Called before anything else that follows from the flow."""

    def on_writable(self, connection: Connection) -> None:
        """A connection's output backlog fell below the low-water mark after it had been above the high one."""
