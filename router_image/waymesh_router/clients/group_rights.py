"""The management right of each client. Its listener and its user group determine it, also after a policy change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from waymesh_amqp.errors import UNAUTHORIZED_ACCESS
from waymesh_router.core.addresses.keys import MANAGEMENT, key_name
from waymesh_router.core.attaching import NO_MANAGEMENT as REFUSED
from waymesh_router.core.link_kinds import MANAGEMENT_RIGHTS, UNDECIDED_MANAGEMENT, WRITE_MANAGEMENT
from waymesh_router.core.links.connections import default_management
from waymesh_router.policy.management_right import management_right

if TYPE_CHECKING:
    from waymesh_router.core.model import RouterConnection, RouterLink
    from waymesh_router.policy.enforcement import Client, Enforcement

_NAMES = {number: name for name, number in MANAGEMENT_RIGHTS.items()}


@dataclass(frozen=True, slots=True)
class _Given:
    """What else the right depends on: the right set at the listener (None: not set) and the default."""

    client: Client
    listener: str | None
    default: str


class GroupRights:
    """Keeps `management` of the connections of clients in user groups up to date."""

    def __init__(self, enforcement: Enforcement) -> None:
        self._enforcement = enforcement
        self._given: dict[RouterConnection, _Given] = {}
        enforcement.on_replaced = self._decide_all

    def opened(self, conn: RouterConnection, client: Client) -> None:
        """A client of a group was accepted: decide its right, which is that of its listener until now."""
        listener = None if conn.management == UNDECIDED_MANAGEMENT else _NAMES[conn.management]
        self._given[conn] = given = _Given(client, listener, _NAMES[default_management(conn)])
        self._set(conn, self._right(given))

    def closed(self, conn: RouterConnection) -> None:
        """The connection has ended."""
        self._given.pop(conn, None)

    def limits(self, conn: RouterConnection) -> bool:
        """Whether the connection has a smaller right than without its group."""
        given = self._given.get(conn)
        return given is not None and conn.management < MANAGEMENT_RIGHTS[given.listener or given.default]

    def _decide_all(self) -> None:
        """Policy has changed: recompute the rights of all connections."""
        for conn, given in list(self._given.items()):
            self._set(conn, self._right(given))

    def _right(self, given: _Given) -> str:
        """The right of a client: none if its group is no longer configured. A dry run does not change it."""
        if self._enforcement.unlimited(given.client) or self._enforcement.dry_run(given.client):
            return management_right(given.listener, given.default, None)
        group = self._enforcement.group_of(given.client)
        return "none" if group is None else management_right(given.listener, given.default, group.management)

    def _set(self, conn: RouterConnection, right: str) -> None:
        if conn.management == MANAGEMENT_RIGHTS[right]:
            return
        conn.management = MANAGEMENT_RIGHTS[right]
        for session in list(conn.sessions.values()):
            for link in list(session.links):
                if link is not None:
                    _limit(link)  # type: ignore[arg-type]


def _limit(link: RouterLink) -> None:
    """Apply the right of its connection to an open link. Requests on senders are checked by the service."""
    conn: RouterConnection = link.connection
    writes = conn.management == WRITE_MANAGEMENT
    if link.anonymous:
        link.seen_address = None  # its cached look-up was made with the former right
    elif link.is_sender and not writes and link.address is not None and key_name(link.address.key) == MANAGEMENT:
        link.detach(UNAUTHORIZED_ACCESS, REFUSED)  # it would receive requests of others
