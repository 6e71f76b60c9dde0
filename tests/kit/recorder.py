"""A handler that records the engine's events, and answers like a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from waymesh_amqp.handler import Handler
from waymesh_amqp.link import Link
from waymesh_amqp.states import ATTACH_RCVD

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.delivery import Delivery
    from waymesh_amqp.performatives import Attach, ErrorInfo, Open
    from waymesh_amqp.session import Session
    from waymesh_amqp.transfer import IncomingTransfer


class Recorder(Handler):
    """`events`: (what, details…) in order. `grant`: credit of links that a peer sends on. `defer`: answer no attach."""

    def __init__(self, grant: int = 10, max_message_size: int = 0) -> None:
        Handler.__init__(self)
        self.grant = grant
        self.max_message_size = max_message_size
        self.defer = False
        self.events: list[tuple[Any, ...]] = []
        self.links: list[Link] = []

    def named(self, what: str) -> list[tuple[Any, ...]]:
        """The details of all events of this name."""
        return [event[1:] for event in self.events if event[0] == what]

    def on_open(self, connection: Connection, performative: Open) -> None:
        self.events.append(("open", performative.container_id))
        Handler.on_open(self, connection, performative)

    def on_close(self, connection: Connection, error: ErrorInfo | None) -> None:
        self.events.append(("close", error.condition if error is not None else ""))

    def on_begin(self, session: Session) -> None:
        self.events.append(("begin", session.channel))

    def new_link(self, session: Session) -> Link:
        return Link(session)

    def on_attach(self, link: Link, performative: Attach) -> None:
        self.events.append(("attach", link.name, link.is_sender))
        self.links.append(link)
        if link.state != ATTACH_RCVD or self.defer:
            return
        link.max_message_size = self.max_message_size
        link.accept(performative, performative.source, performative.target)
        if not link.is_sender:
            link.capacity = self.grant
            link.grant()

    def on_detach(self, link: Link, error: ErrorInfo | None) -> None:
        self.events.append(("detach", link.name, error.condition if error is not None else ""))

    def on_transfer(self, link: Link, transfer: IncomingTransfer) -> None:
        settled = link.transfer_settled
        self.events.append(
            ("transfer", link.transfer_id, transfer.first, settled, bool(transfer.more), transfer.payload())
        )

    def on_abort(self, link: Link) -> None:
        self.events.append(("abort", link.transfer_id))

    def on_outcome(self, delivery: Delivery, settled: bool, state: bytes) -> None:
        self.events.append(("outcome", delivery.oid, bool(settled), state))

    def on_sender_outcome(self, delivery: Delivery, settled: bool, state: bytes) -> None:
        self.events.append(("sender outcome", delivery.did, bool(settled), state))

    def on_credit(self, link: Link) -> None:
        self.events.append(("credit", link.name, link.credit))
