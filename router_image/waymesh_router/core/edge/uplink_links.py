"""The links of an edge router's active uplink. Source: protocol/edge.md "Links of a new active uplink"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from waymesh_amqp.codec_values import Symbol
from waymesh_amqp.performatives import Attach, Terminus
from waymesh_router.core.attaching import random_text
from waymesh_router.core.containers.registry import OPEN_STATES
from waymesh_router.core.forwarding.annotations import Annotations, arrived
from waymesh_router.core.link_kinds import DATA

if TYPE_CHECKING:
    from waymesh_amqp.session import Session
    from waymesh_router.core.containers.registry import Containers
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.links.registry import LinkRegistry
    from waymesh_router.core.model import RouterConnection, RouterLink

_EXPIRY = Symbol("link-detach")
RETRY_S = 10.0
"""Delay before a link is attached again that the interior router refused or ended, as a draining router does."""


class LinkUser(Protocol):
    """A part of the uplink with its own links."""

    def attached(self, link: RouterLink, answer: Attach) -> None:
        """The interior router has accepted the attach."""

    def lost(self, link: RouterLink) -> None:
        """The link has ended; called before its deliveries end."""


def source(address: str | None = None, capability: str = "", dynamic: bool = False) -> Terminus:
    """The source of a link of the uplink."""
    named: list[str] | None = [Symbol(capability)] if capability else None
    return Terminus("source", address=address, expiry_policy=_EXPIRY, dynamic=dynamic, capabilities=named)


def target(address: str | None = None, capability: str = "") -> Terminus:
    """The target of a link of the uplink."""
    named: list[str] | None = [Symbol(capability)] if capability else None
    return Terminus("target", address=address, expiry_policy=_EXPIRY, capabilities=named)


class UplinkLinks:
    """Attaches links on the active uplink, and notifies their users of events. `conn`: None without an uplink."""

    def __init__(self, context: CoreContext, registry: LinkRegistry, containers: Containers) -> None:
        self.conn: RouterConnection | None = None
        self._context = context
        self._registry = registry
        self._containers = containers
        self._users: dict[int, LinkUser] = {}
        self._core: Session | None = None  # for the services of the interior router

    def start(self, conn: RouterConnection) -> None:
        """This connection is the active uplink now."""
        self.conn = conn
        self._core = None

    def stop(self) -> None:
        """There is no active uplink; its links have already ended."""
        self.conn = self._core = None
        self._users.clear()

    @property
    def usable(self) -> bool:
        """Whether links can be attached. A lost connection with many links remains the uplink until all have ended."""
        return self.conn is not None and not self.conn.over

    @property
    def capacity(self) -> int:
        """The credit for links of addresses."""
        assert self.conn is not None
        return self.conn.link_capacity

    @property
    def now(self) -> float:
        """The time, in seconds."""
        return self._context.now

    @property
    def octets_in(self) -> int:
        """Octets that the interior router has sent."""
        assert self.conn is not None
        return self.conn.octets_in

    def session(self, incoming: bool) -> Session:
        """A session for a link of clients. Raises AmqpError if the interior router has no room."""
        assert self.conn is not None
        return self._containers.session(self.conn, incoming)

    def core_session(self) -> Session:
        """The session for services."""
        assert self.conn is not None
        if self._core is None or self._core.state not in OPEN_STATES:
            self._core = self.conn.open_session()
        return self._core

    def sender(self, user: LinkUser, session: Session, from_: Terminus | None, to: Terminus) -> RouterLink:
        """Attach a sender to the interior router. Raises AmqpError."""
        return self._open(user, session, self._attach(False, from_, to))

    def receiver(
        self,
        user: LinkUser,
        session: Session,
        from_: Terminus,
        to: Terminus | None,
        credit: int,
        annotations: Annotations | None = None,
    ) -> RouterLink:
        """Attach a receiver from the interior router. `annotations`: for its messages. Raises AmqpError."""
        link = self._open(user, session, self._attach(True, from_, to))
        link.capacity = credit
        link.annotations = annotations or arrived(None, "0")
        return link

    def _attach(self, incoming: bool, from_: Terminus | None, to: Terminus | None) -> Attach:
        return Attach(
            name=f"qdlink.{random_text(self._context.rng)}",
            handle=0,
            role=incoming,
            snd_settle_mode=2,
            rcv_settle_mode=0,
            source=from_,
            target=to,
        )

    def _open(self, user: LinkUser, session: Session, attach: Attach) -> RouterLink:
        link = self._registry.open_link(session, attach)
        link.kind = DATA
        self._users[link.id] = user
        return link

    def attached(self, link: RouterLink, answer: Attach) -> None:
        """The interior router answered. An answer without a terminus is a refusal: a detach follows."""
        user = self._users.get(link.id)
        if user is None or (answer.target if link.is_sender else answer.source) is None:
            return
        if not link.is_sender:
            link.grant()
        user.attached(link, answer)

    def lost(self, link: RouterLink) -> None:
        """A link has ended."""
        user = self._users.pop(link.id, None)
        if user is not None:
            user.lost(link)
