"""Message annotations of routers: reading, stripping, adding. AMQP Mapping 3.3.1, inter-router.md."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import cython

from waymesh_amqp.codec_decode import decode_value, has_more_values
from waymesh_amqp.codec_encode import encode
from waymesh_amqp.codec_values import Symbol
from waymesh_amqp.errors import DecodeError

if cython.compiled:
    from cython.cimports.waymesh_amqp.reading import skip
    from cython.cimports.waymesh_amqp.wire import Octets, octets, same
else:
    from waymesh_amqp.reading import skip
    from waymesh_amqp.wire import Octets, octets, same

if TYPE_CHECKING:
    from waymesh_router.core.model import Address

PREFIX = "x-opt-qd."
ROUTER_KEYS = PREFIX.encode()
AREA = "0/"
"""Area prefix of the router ids in ingress and trace."""
INGRESS = Symbol("x-opt-qd.ingress")
TRACE = Symbol("x-opt-qd.trace")
TO = Symbol("x-opt-qd.to")
PHASE = Symbol("x-opt-qd.phase")
SAMPLE = Symbol("x-opt-qd.sample")
EXCHANGES = Symbol("x-opt-qd.exchanges")
_SECTION = b"\x00\x53\x72"
_HEADER_BYTES = 3
_COUNT_AT, _PAIRS_AT = 8, 12
"""Positions of the map's count and of the first pair in a `section`."""
_SAMPLE_KEY = encode(SAMPLE)
_SAMPLE_VALUE = Struct(">BBBBqBd")
"""Size of a list of a long and a double, each with its format code. Spec: 1.6.22."""
_LIST, _LIST_BYTES, _LONG, _DOUBLE = 0xC0, 19, 0x81, 0x82
MAX_TRACE = 256
MAX_CLIENT_PAIRS = 1000
MAX_PAIRS = 1024
"""Maximum number of annotations of a message, of clients and with those that routers add."""
MAX_ROUTER_PAIRS = 16
"""Maximum number of annotations of routers, which are decoded. Seven are defined."""
MAX_VALUES = 1000
"""Maximum number of values within each of them."""
MAX_SID = 1 << 63
TOPOLOGICAL = "_topo/0/"
MAX_MEANT = 64
"""Maximum number of such addresses that are kept with the annotations of a link."""
UPLINK_TRACE = "uplink"
"""Represents the interior router of an edge router in the trace, if it has omitted the annotations."""
FALLBACK = "F"
FALLBACK_PHASE = 22
"""Distance of the phase of fallback addresses in annotations: from 0 to F."""
CHOSEN = "W"
CHOSEN_PHASE = 39
"""The phase of a delivery whose ingress router has chosen the router that gets it: its address is in the override of
`to`, after `_topo/0/<router>/`. Routers on the way only forward it. Clients cannot set a phase."""
PHASES = {FALLBACK: FALLBACK_PHASE, CHOSEN: CHOSEN_PHASE}


class Annotations:
    """One message-annotations section, parsed once and reused for each message that has the same bytes."""

    def __init__(self, router_id: str) -> None:
        self.client = b""  # the section with the client's pairs only; b"" for none
        self.transit = b""  # the section for the next router, with this router in the trace
        self.ingress = router_id  # router where the message entered the mesh, without `0/`
        self.trace: tuple[str, ...] = ()  # routers that the message passed before, without `0/`
        self.stamps: tuple[str, ...] = ()  # trace and ingress as received, if they came without `0/`; else ()
        self.to: str | None = None  # override of the address
        self.phase = "0"
        self.exchanges: tuple[str, ...] = ()  # routers whose exchanges made this copy and those before it
        self.address: Address | None = None  # the address that `to` was resolved to
        self.plain = True
        self.sid = 0  # id of the sample; 0: not sampled
        self.weight = 0.0  # number of deliveries that the sample represents
        self.here = False  # its ingress router has chosen this router, see CHOSEN_PHASE
        self.meant: dict[tuple[str, str], Annotations] | None = None  # see `meant_for`
        self.original: Annotations | None = None  # the annotations before it was meant for another router's consumers
        self.unmarked = b""  # a `transit` to which the sample must still be added; b"" for none


def arrived(to: str | None, phase: str) -> Annotations:
    """For messages from the uplink of an edge router, on a link with the address `to`, or None.

    Their trace has a router, so that they never return over the uplink. Source: protocol/edge.md "No echo".
    """
    a = local_annotations("", to, phase)
    a.trace = (UPLINK_TRACE,)
    return a


def local_annotations(
    router_id: str, to: str | None, phase: str = "0", client_pairs: bytes = b"", client_count: int = 0
) -> Annotations:
    """For a message that enters the mesh here. `to`: the address of the link, None if the message has its own."""
    a = Annotations(router_id)
    a.to = to
    a.phase = phase
    a.transit = compose(a, client_pairs, client_count, router_id)
    a.client = section(client_pairs, client_count) if client_count else b""
    return a


def copied(before: Annotations, to: str, phase: str, router_id: str, stamp: str) -> Annotations:
    """For a copy from an exchange of this router: it enters the mesh here.

    `stamp`: see CoreContext.
    """
    a = Annotations(stamp)
    a.to, a.phase, a.client = to, phase, before.client
    a.exchanges = (*before.exchanges, router_id)
    return _composed(a, stamp)


def value_of_section(data: bytes, at: int) -> int:
    """Position of the value of the section at `at`, whose descriptor is a code or a symbol."""
    if data[at + 1] == 0x53:
        return at + _HEADER_BYTES
    return at + _HEADER_BYTES + data[at + 2] if data[at + 1] == 0xA3 else at + 10


def read_annotations(data: bytes, router_id: str, trusted: bool, own: Annotations | None) -> Annotations:
    """Parse a whole section.

    `trusted`: the routers' pairs come from another router and are used; otherwise they are dropped. `own`: annotations
    of the link; an address in them takes precedence over one in the message. Raises DecodeError.
    """
    client, count, pairs, end = split_map(data, value_of_section(data, 0))
    if end != len(data):
        raise DecodeError("message-annotations with trailing bytes")
    if not trusted:
        if count > MAX_CLIENT_PAIRS:
            raise DecodeError(f"more than {MAX_CLIENT_PAIRS} message-annotations")
        to, phase = (own.to, own.phase) if own is not None else (None, "0")
        a = local_annotations(router_id, to, phase, client, count)
        a.plain = not pairs
        return a
    a = Annotations(router_id)
    ingress = AREA + router_id
    trace: tuple[str, ...] = ()
    if len(pairs) > MAX_ROUTER_PAIRS:
        raise DecodeError(f"more than {MAX_ROUTER_PAIRS} message-annotations of routers")
    for key, value in map(decoded_pair, pairs):
        if key == INGRESS and isinstance(value, str):
            a.ingress, ingress = _bare_id(value), value
        elif key == TRACE and isinstance(value, list):
            trace = tuple(v for v in value[:MAX_TRACE] if isinstance(v, str))
            a.trace = tuple(_bare_id(v) for v in trace)
        elif key == TO and isinstance(value, str):
            a.to = value
        elif key == SAMPLE and isinstance(value, list) and len(value) == 2:
            a.sid, a.weight = _sample(*value)
        elif key == PHASE and isinstance(value, int) and 0 <= value <= 9:
            a.phase = str(int(value))
        elif key == PHASE and value in (FALLBACK_PHASE, CHOSEN_PHASE):
            a.phase = FALLBACK if value == FALLBACK_PHASE else CHOSEN
        elif key == EXCHANGES and isinstance(value, list):
            a.exchanges = tuple(_bare_id(v) for v in value[:MAX_TRACE] if isinstance(v, str))
    if a.phase == CHOSEN and a.to is not None and a.to.startswith(f"{TOPOLOGICAL}{router_id}/"):
        a.to, a.phase, a.here = a.to.split("/", 3)[3], "0", True
    if own is not None:
        if own.to is not None:
            a.to, a.phase = own.to, own.phase
        a.trace = a.trace or own.trace
    if not all(stamp.startswith(AREA) for stamp in (*trace, ingress)):
        a.stamps = (*trace, ingress)
    a.client = section(client, count) if count else b""
    a.transit = compose(a, client, count, router_id)
    a.plain = False
    return a


def redirected(a: Annotations, key: str, router_id: str) -> Annotations:
    """The annotations of a message `a` that is redirected to a fallback address with this key."""
    b = _like(a)
    b.to, b.phase = key[2:], FALLBACK
    return _composed(b, router_id)


def meant_for(a: Annotations, egress: str, key: str, router_id: str) -> Annotations:
    """The annotations of a message `a` to the mobile address `key` that is meant for consumers of router `egress`."""
    if a.meant is None or len(a.meant) >= MAX_MEANT:
        a.meant = {}
    found = a.meant.get((egress, key))
    if found is None:
        b = _like(a)
        b.to, b.phase, b.original = f"{TOPOLOGICAL}{egress}/{key[2:]}", CHOSEN, a
        found = a.meant[egress, key] = _composed(b, router_id)
    return found


def addressed(a: Annotations, to: str, router_id: str) -> Annotations:
    """The annotations of a message `a` whose address is not the one in its properties."""
    b = _like(a)
    b.to, b.phase = to, a.phase
    return _composed(b, router_id)


def entering(a: Annotations, router_id: str) -> Annotations:
    """The annotations of a message `a` from an edge router: its ingress is this router. Other routers do not know the
    edge router and could not compute the paths of its messages."""
    if not (a.trace or a.ingress != router_id):
        return a
    b = _like(a)
    b.to, b.phase = a.to, a.phase
    b.ingress, b.trace, b.stamps = router_id, (), ()
    return _composed(b, router_id)


def sampled(a: Annotations, sid: int, weight: float, router_id: str) -> Annotations:
    """The annotations of a message `a` that becomes a sample."""
    b = _like(a)
    b.to, b.phase, b.address, b.sid, b.weight = a.to, a.phase, a.address, sid, weight
    if not a.transit or a.sid:
        return _composed(b, router_id)
    b.unmarked = a.transit
    return b


def transit_section(a: Annotations) -> bytes:
    """The section for the next router. The sample is added only here: most messages leave at the ingress."""
    if a.unmarked:
        count = int.from_bytes(a.unmarked[_COUNT_AT:_PAIRS_AT], "big") // 2 + 1
        value = _SAMPLE_VALUE.pack(_LIST, _LIST_BYTES, 2, _LONG, a.sid, _DOUBLE, a.weight)
        a.transit = section(a.unmarked[_PAIRS_AT:] + _SAMPLE_KEY + value, count)
        a.unmarked = b""
    return a.transit


def _like(a: Annotations) -> Annotations:
    b = Annotations(a.ingress)
    b.client, b.trace, b.plain, b.sid, b.weight = a.client, a.trace, a.plain, a.sid, a.weight
    b.stamps, b.exchanges = a.stamps, a.exchanges
    return b


def _composed(a: Annotations, router_id: str) -> Annotations:
    """The same annotations, with `transit` composed from the other fields."""
    pairs, count = split_map(a.client, _HEADER_BYTES)[:2] if a.client else (b"", 0)
    a.transit = compose(a, pairs, count, router_id)
    return a


def compose(a: Annotations, client_pairs: bytes, client_count: int, me: str) -> bytes:
    """The section for the next router: the client's pairs first, then the routers'.

    `me`: the id for the trace; "" at an edge router, which writes neither trace nor ingress.
    """
    ours = b""
    count = 2
    if a.to is not None:
        ours += encode(TO) + encode(a.to)
        count += 1
    if a.phase != "0":
        ours += encode(PHASE) + encode(PHASES.get(a.phase) or int(a.phase))
        count += 1
    if a.sid:
        ours += encode(SAMPLE) + encode([a.sid, a.weight])
        count += 1
    if a.exchanges:
        ours += encode(EXCHANGES) + encode([AREA + router for router in a.exchanges])
        count += 1
    if not me:
        count -= 2
        return section(client_pairs + ours, client_count + count) if client_count + count else b""
    # ids that were received without an area stay unchanged: a client may have set them if stripping is off
    *trace, ingress = a.stamps or (*[AREA + router for router in a.trace], AREA + a.ingress)
    ours += encode(TRACE) + encode([*trace, AREA + me])
    ours += encode(INGRESS) + encode(ingress)
    return section(client_pairs + ours, client_count + count)


def section(pairs: bytes, count: int) -> bytes:
    """A message-annotations section with encoded pairs."""
    return _SECTION + encoded_map(pairs, count)


def encoded_map(pairs: bytes, count: int) -> bytes:
    """A map with encoded pairs."""
    return b"\xd1" + (len(pairs) + 4).to_bytes(4, "big") + (2 * count).to_bytes(4, "big") + pairs


def split_map(data: bytes, pos: int, prefix: bytes = ROUTER_KEYS) -> tuple[bytes, int, list[bytes], int]:
    """Divide the map at pos: (other pairs, joined; their number; pairs of which the key begins with `prefix`; end).

    Nothing is decoded: to decode a MiB of values takes a second.
    """
    code = data[pos] if pos < len(data) else 0
    if code == 0xC1 and len(data) >= pos + 3:
        stop, count, pos = pos + 2 + data[pos + 1], data[pos + 2], pos + 3
    elif code == 0xD1 and len(data) >= pos + 9:
        stop = pos + 5 + int.from_bytes(data[pos + 1 : pos + 5], "big")
        count, pos = int.from_bytes(data[pos + 5 : pos + 9], "big"), pos + 9
    else:
        raise DecodeError("message-annotations that are not a map")
    if stop > len(data) or count % 2 or count > stop - pos:
        raise DecodeError("message-annotations with a wrong size or count")
    if count > 2 * MAX_PAIRS:
        raise DecodeError(f"more than {MAX_PAIRS} message-annotations")
    b: Octets = octets(data)
    end: cython.Py_ssize_t = stop
    after: cython.Py_ssize_t = pos
    others_from: cython.Py_ssize_t = after
    start: cython.Py_ssize_t
    at: cython.Py_ssize_t
    _: cython.int
    others: list[bytes] = []
    found: list[bytes] = []
    for _ in range(count // 2):
        start = after
        at = skip(b, start, end)
        after = skip(b, at, end)
        if _begins_with(b, start, at, prefix):
            others.append(data[others_from:start])
            others_from = after
            found.append(data[start:after])
    others.append(data[others_from:after])
    return b"".join(others), count // 2 - len(found), found, stop


def _begins_with(b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t, prefix: bytes) -> cython.bint:
    """Whether the value in b[p:end] is a string or symbol that begins with `prefix`."""
    size: cython.Py_ssize_t = len(prefix)
    k: cython.int = b[p]
    if k == 0xA3 or k == 0xA1:
        p += 2
    elif k == 0xB3 or k == 0xB1:
        p += 5
    else:
        return False
    return end - p >= size and same(b, p, p + size, prefix)


def decoded_pair(pair: bytes) -> tuple[object, object]:
    """Key and value of an annotation of routers. Raises DecodeError."""
    key, at = decode_value(pair, 0, len(pair), 0)
    if has_more_values(pair, at, len(pair), MAX_VALUES):
        raise DecodeError(f"a message-annotation of more than {MAX_VALUES} values")
    return key, decode_value(pair, at, len(pair), 0)[0]


def _sample(sid: object, weight: object) -> tuple[int, float]:
    """Id and weight of a sample; zeros if they are invalid."""
    if isinstance(sid, int) and 0 < sid < MAX_SID and isinstance(weight, float) and weight >= 1:
        return sid, weight
    return 0, 0.0


def _bare_id(text: str) -> str:
    """`0/A` → `A`."""
    return text.removeprefix(AREA)
