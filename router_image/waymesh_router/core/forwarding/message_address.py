"""The address of a message: from the link, the `to` annotation of another router, or the properties of the message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp.errors import DecodeError
from waymesh_router.core.addresses.keys import OWN_MANAGEMENT, names_management, own_management
from waymesh_router.core.addresses.table import AddressTable
from waymesh_router.core.forwarding.annotations import (
    Annotations,
    addressed,
    entering,
    local_annotations,
    read_annotations,
)
from waymesh_router.core.forwarding.section_order import SectionOrder
from waymesh_router.core.forwarding.sections import Sections
from waymesh_router.core.model import Address, RouterConnection, RouterLink
from waymesh_router.core.tenants import in_space

if cython.compiled:
    from cython.cimports.waymesh_amqp.reading import skip
    from cython.cimports.waymesh_amqp.wire import Octets, same, to_bytes
    from cython.cimports.waymesh_router.core.link_kinds import (
        CLOSEST,
        ENDPOINT,
        NO_MANAGEMENT,
        READ_MANAGEMENT,
        UNAVAILABLE,
    )
else:
    from waymesh_amqp.reading import skip
    from waymesh_amqp.wire import Octets, same, to_bytes
    from waymesh_router.core.link_kinds import CLOSEST, ENDPOINT, NO_MANAGEMENT, READ_MANAGEMENT, UNAVAILABLE

if TYPE_CHECKING:
    from waymesh_amqp.transfer import IncomingTransfer
    from waymesh_router.core.link_routing.relays import Relays

CACHE_LIMIT = 4096
MAX_KEPT = cython.declare(cython.Py_ssize_t, 1024)
"""Maximum size in bytes of annotations, and of addresses of messages, that are kept for the next message: a client with
32,768 links could otherwise fill the memory with one message on each."""
TRUSTED_WORK = cython.declare(cython.int, 4)
CLIENT_WORK = cython.declare(cython.int, 8)
"""Binary logarithm of the bytes of annotations that cost as much as a transfer. Those of routers are decoded."""
NULL = cython.declare(cython.int, 0x40)


class MessageAddress:
    """Finds annotations and addresses of scanned messages. The last results are cached on the link."""

    def __init__(
        self, router_id: str, stamp: str, sections: Sections, addresses: AddressTable, relays: Relays
    ) -> None:
        """`stamp`: see CoreContext."""
        self.router_id = router_id
        self.stamp = stamp
        self.sections = sections
        self.addresses = addresses
        self.relays = relays
        self.cache: dict[bytes, Annotations] = {}
        self.plain_annotations: Annotations = local_annotations(stamp, None)
        self.incomplete = Address("", CLOSEST)  # result: more frames are needed
        self.unreadable = Address("", CLOSEST)  # result: the address of the message is unreadable
        self.forbidden = Address("", CLOSEST)  # result: the sender may not send to this address
        self.unavailable = Address("", CLOSEST)  # result: the address has distribution `unavailable`
        self.denied = Address("", CLOSEST)  # result: policy does not allow the sender to send to this address
        self.outside = Address("", CLOSEST)  # result: the address is not in the space of the sender's tenant
        self.over_link_limit: Address = relays.over_link_limit  # result: see maxLinks of the connection
        self.long_to = ""  # the last address of a message that was too long to be kept on its link

    def annotations_of(self, lk: RouterLink, transfer: IncomingTransfer) -> Annotations | None:
        """The annotations of the scanned message; None if they are invalid."""
        head: cython.Py_ssize_t = self.sections.head
        rest: cython.Py_ssize_t = self.sections.rest
        if lk.seen_annotations is not None and same(transfer.data, head, rest, lk.seen_section):
            return lk.seen_annotations
        data = to_bytes(transfer.data, head, rest)
        trusted: cython.bint = lk.kind != ENDPOINT or not lk.strip
        kept: cython.bint = len(data) <= MAX_KEPT
        key = data if kept and trusted and lk.annotations is None and not lk.edge else None
        a = self.cache.get(key) if key is not None else None
        if a is None:
            lk.connection.budget -= len(data) >> (TRUSTED_WORK if trusted else CLIENT_WORK)
            try:
                a = read_annotations(data, self.stamp, trusted, lk.annotations) if data else self.plain_annotations
            except DecodeError:
                return None
            if lk.edge and self.stamp:
                a = entering(a, self.router_id)
            if key is not None and not a.sid:
                if len(self.cache) >= CACHE_LIMIT:
                    self.cache.clear()
                self.cache[key] = a
        if kept:
            lk.seen_section = data
            lk.seen_annotations = a
        return a

    def address_of(self, lk: RouterLink, annotations: Annotations, transfer: IncomingTransfer) -> Address | None:
        """The address of a scanned message on a link without an address; None if it is not known.

        In the cases without an address, returns `incomplete`, `unreadable`, `forbidden`, `denied`, `outside`,
        `unavailable` or `over_link_limit`.
        """
        if annotations.to is None:
            at: cython.Py_ssize_t = self.sections.find_to(transfer)
            if at == -2 and transfer.more:
                return self.incomplete
            return self.unreadable if at < 0 else self.address_by_to(lk, annotations, transfer, at)
        if lk.checks_management and self.forbids(lk, annotations.to):
            return self.checking_agent(lk)
        if lk.checks_targets and not lk.permit.may_send_to(annotations.to):
            return self.denied
        known: Address | None = annotations.address
        if known is None or known.dead:
            known = self.addresses.lookup(annotations.to, annotations.phase)
            annotations.address = known
        return known

    def denies(self, lk: RouterLink, transfer: IncomingTransfer) -> cython.bint:
        """Whether policy does not allow the user-id of a scanned message. An unreadable one is not allowed."""
        at: cython.Py_ssize_t = self.sections.find_user_id(transfer)
        if at < 0:
            return at != -1
        b: Octets = transfer.data
        if b[at] == NULL:  # most messages have none
            return False
        end: cython.Py_ssize_t = skip(b, at, transfer.end)
        order: SectionOrder = lk.section_order  # type: ignore[assignment]
        if same(b, at, end, order.user):
            return False
        user = to_bytes(b, at, end)
        if user not in lk.permit.user_ids:
            return True
        order.user = user
        return False

    def forbids(self, lk: RouterLink, text: str) -> bool:
        """Whether an address is that of a management agent that the peer may not send to.

        With the right to read, or to write in a user group, the peer may send only to the agent of this router, which
        checks and logs requests.
        """
        if not names_management(text):
            return False
        conn: RouterConnection = lk.connection
        return conn.management == NO_MANAGEMENT or not own_management(text, self.router_id)

    def checking_agent(self, lk: RouterLink) -> Address:
        """Where a request goes that `forbids` holds back: that of an edge router, all of whose requests come on one
        link, to the agent of this router, which checks it and passes it on."""
        conn: RouterConnection = lk.connection
        own: Address | None = None
        if lk.edge and conn.management != NO_MANAGEMENT:
            own = self.addresses.lookup(OWN_MANAGEMENT, "0")
        return self.forbidden if own is None else own

    def address_by_to(
        self, lk: RouterLink, annotations: Annotations, transfer: IncomingTransfer, at: cython.Py_ssize_t
    ) -> Address | None:
        """Look up properties.to; `at`: position of its encoded value."""
        b: Octets = transfer.data
        size: cython.Py_ssize_t
        body: cython.Py_ssize_t
        if b[at] == 0xA1:
            size = b[at + 1]
            body = at + 2
        elif b[at] == 0xB1:
            size = b[at + 1] << 24 | b[at + 2] << 16 | b[at + 3] << 8 | b[at + 4]
            body = at + 5
        else:
            return None
        if lk.seen_address is not None and not lk.seen_address.dead and same(b, body, body + size, lk.seen_to):
            return lk.seen_address
        raw = to_bytes(b, body, body + size)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return None
        found: Address | None
        if lk.checks_management and self.forbids(lk, text):
            found = self.checking_agent(lk)
        elif lk.checks_targets and not lk.permit.may_send_to(text):
            found = self.denied
        else:
            if lk.of_tenant:
                text = self.space_address(lk, text)
            found = self.addresses.lookup(text, annotations.phase) if text or not lk.of_tenant else self.outside
        if found is None and lk.kind == ENDPOINT:
            found = self.relays.address(lk, text)
            if found is self.over_link_limit:  # not kept on the link: a later message may find room
                return found
        if lk.kind == ENDPOINT and (found is None or found.treatment == UNAVAILABLE):
            if self.addresses.unavailable(text):
                return self.unavailable
        if size > MAX_KEPT:
            self.long_to = raw.decode()
            lk.seen_to, lk.seen_address = b"", None
        else:
            lk.seen_to, lk.seen_address = raw, found
        return found

    def space_address(self, lk: RouterLink, text: str) -> str:
        """The address in the mesh for a tenant's address; "" if the tenant may not use it."""
        conn: RouterConnection = lk.connection
        return in_space(conn.tenant, text, True, conn.management == READ_MANAGEMENT) or ""

    def annotations_in_space(self, lk: RouterLink, annotations: Annotations) -> Annotations:
        """The annotations of a tenant's message with a known address: other routers read the address from them."""
        if not lk.seen_to:  # too long to be kept
            return addressed(annotations, self.space_address(lk, self.long_to), self.stamp)
        if lk.spaced is not None and lk.spaced[0] is annotations and lk.spaced[1] is lk.seen_to:
            kept: Annotations = lk.spaced[2]
            return kept
        to = self.space_address(lk, lk.seen_to.decode())
        spaced: Annotations = addressed(annotations, to, self.stamp)
        if len(annotations.client) <= MAX_KEPT:
            lk.spaced = (annotations, lk.seen_to, spaced)
        return spaced
