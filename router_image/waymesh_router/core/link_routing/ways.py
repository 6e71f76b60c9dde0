"""The next hops of the routed links of each session, by the router that they lead to: later links follow them.

When paths change, the links that exist keep theirs. A later link would take the new one, and what is sent on it could
overtake what was sent before on others: a commit would come before the messages of its transaction. Spec: 4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from waymesh_amqp.session import Session
    from waymesh_router.core.model import RouterConnection

HERE = ""
"""In the place of a router's id: links to a container of this router."""


class Ways:
    """How many routed links of a session lead where, and over which connection."""

    def __init__(self) -> None:
        self._ways: dict[Session, dict[str, dict[RouterConnection, int]]] = {}

    def link_opened(self, origin: Session, router: str, there: RouterConnection) -> None:
        """A link of `origin`, a session of a peer, leads over the connection `there` to a router by its id, or HERE."""
        over = self._ways.setdefault(origin, {}).setdefault(router, {})
        over[there] = over.get(there, 0) + 1

    def link_gone(self, origin: Session, router: str, there: RouterConnection) -> None:
        """Such a link is gone."""
        ways = self._ways[origin]
        over = ways[router]
        over[there] -= 1
        if not over[there]:
            del over[there]
        if not over:
            del ways[router]
        if not ways:
            del self._ways[origin]

    def routers(self, origin: Session) -> Collection[str]:
        """The ids of the routers to which links of a session lead."""
        return self._ways.get(origin, {}).keys()

    def next_hop(self, origin: Session, router: str) -> RouterConnection | None:
        """The connection over which the oldest links of a session lead to a router; None if there is none."""
        return next((there for there in self.over(origin, router) if not there.over), None)

    def over(self, origin: Session, router: str) -> Collection[RouterConnection]:
        """The connections over which links of a session lead to a router, or HERE: the oldest first."""
        return self._ways.get(origin, {}).get(router, {}).keys()
