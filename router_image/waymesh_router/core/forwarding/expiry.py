"""When waiting deliveries expire: `ttl` of the header, `absolute-expiry-time` of the properties. Spec: 3.2.1, 3.2.4.

Both are read when a delivery begins to wait, so that one that does not wait costs nothing. A waiting delivery is
examined only when it is the next one to be sent: nothing walks over the others. So an expired one takes memory until
then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp.errors import DecodeError
from waymesh_router.core.counters import Counters
from waymesh_router.core.model import Address, Queued, RouterLink

if cython.compiled:
    from cython.cimports.waymesh_amqp.reading import list_body, list_count, read_uint, skip
    from cython.cimports.waymesh_amqp.wire import Octets, octets, read_u32
    from cython.cimports.waymesh_router.core.forwarding.sections import section_code, value_at
else:
    from waymesh_amqp.reading import list_body, list_count, read_uint, skip
    from waymesh_amqp.wire import Octets, octets, read_u32
    from waymesh_router.core.forwarding.sections import section_code, value_at

if TYPE_CHECKING:
    from waymesh_router.core.core_context import CoreContext

A_TURN = 256
"""Maximum number of expired deliveries that are ended in one turn of the event loop: about 0.5 ms of work. Waiting
deliveries that are sent count, too, four as one: decision 0073."""
FURTHER = 8 * A_TURN
"""Maximum number by which a turn may exceed that, after pre-settled deliveries began to wait: decision 0102."""
AGED_S = cython.declare(cython.double, 1.0)
"""The ttl of a delivery that waited for less is sent as it came."""
STALE_S = cython.declare(cython.double, 0.25)
"""`now` can be as old as this when a delivery arrives, as nothing reads the time in between: no ttl may end early."""
HEADER = cython.declare(cython.int, 0x70)
PROPERTIES = cython.declare(cython.int, 0x73)
TTL = cython.declare(cython.Py_ssize_t, 2)
ABSOLUTE_EXPIRY_TIME = cython.declare(cython.Py_ssize_t, 8)
SMALL = cython.declare(cython.int, 0x53)
LIST8 = cython.declare(cython.int, 0xC0)
SHORT_SECTION = cython.declare(cython.Py_ssize_t, 6)
SHORT_LIST = cython.declare(cython.Py_ssize_t, 3)
UINT = cython.declare(cython.int, 0x70)
TIMESTAMP = cython.declare(cython.int, 0x83)
LEAST = cython.declare(cython.double, 1e-9)
FAR_BYTES = cython.declare(cython.Py_ssize_t, 16384)
"""Properties that end beyond this are not read."""


class Expiry:
    """Reads and checks the times at which waiting deliveries expire."""

    def __init__(self, context: CoreContext, counters: Counters) -> None:
        self.context = context
        self.now = context.now  # as in CoreContext, here without the cost of an attribute of Python
        self.counters = counters
        self.left = A_TURN  # how many may be ended in this turn
        self.joined = 0  # pre-settled deliveries and copies that began to wait since this turn began
        self.addresses: dict[Address, None] = {}  # where deliveries still wait that may be ended or sent
        self.links: dict[RouterLink, Address | None] = {}  # the same of what waits for a consumer; its address
        self.of_address: dict[Address, int] = {}  # how many of `links` an address has

    def begin(self, q: Queued) -> None:
        """A delivery begins to wait: read when it expires. Times that cannot be read count as none, as does 0."""
        if q.since == 0.0 and q.link is not None:
            q.since = self.now
            end: cython.Py_ssize_t = len(q.data)
            b: Octets = octets(q.data)
            at: cython.Py_ssize_t = q.head_size
            if (
                end - at > SHORT_SECTION
                and b[at + 1] == SMALL
                and (b[at + 2] > PROPERTIES or (b[at + 3] == LIST8 and b[at + 5] <= ABSOLUTE_EXPIRY_TIME))
                and (at == 0 or (b[1] == SMALL and b[2] == HEADER and b[3] == LIST8 and b[5] <= TTL))
            ):
                pass  # most messages: their header and properties are too short to have a time
            elif may_have(b, 0, end, HEADER, TTL) or may_have(b, q.head_size, end, PROPERTIES, ABSOLUTE_EXPIRY_TIME):
                self.read_times(q)

    def read_times(self, q: Queued) -> None:
        """Read both times of a delivery that may have one."""
        b: Octets = octets(q.data)
        try:
            self.read_ttl(q, b, len(q.data), q.since)
            self.read_time(q, b, len(q.data))
        except DecodeError:
            return

    def read_more(self, q: Queued) -> None:
        """More of a waiting delivery has arrived: perhaps its properties. The header came with the first part."""
        if q.since == 0.0 or q.size > FAR_BYTES:
            return
        end: cython.Py_ssize_t = len(q.data)
        code: cython.int = section_code(octets(q.data), q.head_size, end)
        if code != -1 and (code != PROPERTIES or self.is_whole(q, end)):
            return
        whole = q.payload()
        try:
            self.read_time(q, octets(whole), len(whole))
        except DecodeError:
            return

    def is_whole(self, q: Queued, end: cython.Py_ssize_t) -> cython.bint:
        """Whether the first part of a delivery has all of the properties."""
        b: Octets = octets(q.data)
        try:
            skip(b, value_at(b, q.head_size), end)
        except DecodeError:
            return False
        return True

    def read_ttl(self, q: Queued, b: Octets, end: cython.Py_ssize_t, now: cython.double) -> None:
        """Read the `ttl` of the header, in milliseconds."""
        if section_code(b, 0, end) != HEADER:
            return
        p: cython.Py_ssize_t = nth_value(b, value_at(b, 0), end, TTL)
        ttl: cython.longlong = read_uint(b, p, end) if p else 0
        if ttl > 0:
            q.expires = now + ttl / 1000.0 + STALE_S
            if b[p] == UINT:  # a shorter one ends before the message is `AGED_S` old
                q.ttl_at = p + 1

    def read_time(self, q: Queued, b: Octets, end: cython.Py_ssize_t) -> None:
        """Read `absolute-expiry-time`, in milliseconds since 1970."""
        at: cython.Py_ssize_t = q.head_size
        if section_code(b, at, end) != PROPERTIES:
            return
        p: cython.Py_ssize_t = nth_value(b, value_at(b, at), end, ABSOLUTE_EXPIRY_TIME)
        if p == 0 or end - p < 9 or b[p] != TIMESTAMP or b[p + 1] > 127:
            return
        high: cython.longlong = read_u32(b, p + 1)
        ms: cython.longlong = high * 4294967296 + read_u32(b, p + 5)
        if ms == 0:
            return
        ahead: cython.double = self.context.clock_ahead
        expires: cython.double = ms / 1000.0 - ahead
        if q.expires == 0.0 or expires < q.expires:
            q.expires = expires if expires > LEAST else LEAST

    def is_over(self, q: Queued) -> cython.bint:
        """Whether a waiting delivery has expired."""
        now: cython.double = self.now
        return q.expires != 0.0 and q.expires <= now

    def aged(self, q: Queued) -> bytes:
        """The first bytes of a delivery that has waited, with what is left of its ttl. Spec: 3.2.1."""
        data: bytes = q.data
        now: cython.double = self.now
        waited: cython.double = now - q.since
        if q.ttl_at == 0 or waited < AGED_S:
            return data
        at: cython.Py_ssize_t = q.ttl_at
        left: cython.longlong = read_u32(octets(data), at)
        left -= int(waited * 1000.0)
        lived: bytes = max(left, 1).to_bytes(4, "big")
        return data[:at] + lived + data[at + 4 :]

    # ---- the work in a turn
    def may_end(self) -> cython.bint:
        """Whether one more expired delivery may be ended in this turn, or further ones be sent; counts it."""
        if self.left <= 0:
            return False
        self.left -= 1
        return True

    def go_on_later(self, out: RouterLink) -> None:
        """What waits for a consumer waits for the next turn of the event loop."""
        if out not in self.links:
            address: Address | None = out.address
            self.links[out] = address
            if address is not None:
                self.of_address[address] = self.of_address.get(address, 0) + 1

    def take_link(self) -> RouterLink:
        """Take out the consumer, of which there must be one, that waits longest for its turn."""
        out: RouterLink = next(iter(self.links))
        address: Address | None = self.links.pop(out)
        if address is not None:
            count: cython.Py_ssize_t = self.of_address.pop(address)
            if count > 1:
                self.of_address[address] = count - 1
        return out

    def has_turn(self, address: Address) -> cython.bint:
        """Whether what waits at an address waits for the next turn of the event loop, and not for credit."""
        return address in self.addresses or address in self.of_address

    def count(self, address: Address) -> None:
        """Count an expired delivery."""
        self.counters.expired += 1
        address.expired += 1

    @property
    def busy(self) -> bool:
        """Whether `next_turn` must be called."""
        return self.left < A_TURN or self.joined > 0

    def next_turn(self) -> None:
        """A turn of the event loop begins. Senders of pre-settled deliveries never wait for credit: if fewer were sent
        in a turn than arrive, a queue would grow until they are dropped, though consumers have credit."""
        further: cython.Py_ssize_t = (self.left - A_TURN if self.left > A_TURN else 0) + self.joined // 4
        self.left = A_TURN + (further if further < FURTHER else FURTHER)
        self.joined = 0


def may_have(
    b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t, code: cython.int, index: cython.Py_ssize_t
) -> cython.bint:
    """False if the section at p is not that of `code`, or a list without a value at `index`: what most messages have is
    told apart without the cost of a parser."""
    if section_code(b, p, end) != code:
        return False
    p = value_at(b, p)
    return end - p < SHORT_LIST or b[p] != LIST8 or b[p + 2] > index


def nth_value(
    b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t, index: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Position of a value in the list at p; 0 if the list is shorter. Raises DecodeError."""
    if list_count(b, p, end) <= index:
        return 0
    end = skip(b, p, end)
    p = list_body(b, p)
    while index > 0:
        index -= 1
        p = skip(b, p, end)
    skip(b, p, end)
    return p
