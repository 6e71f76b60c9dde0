"""What routers export: the kinds of records and their fields, and how the files are named.

One table for the exporter, the documentation and the analytics job. A record is one line of JSON (NDJSON) with the
fields of `ENVELOPE` first; the files are compressed by gzip. Evolution: fields may be added, and are null in older
records; to rename one or to change its type takes a new VERSION, whose files have a root of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

VERSION = 1

SHORT, INT, LONG, DOUBLE = "int16", "int32", "int64", "double"
TEXT, FLAG, TIME = "string", "boolean", "timestamp"
TEXTS, PAIRS, COUNTS = "list<string>", "map<string,string>", "map<string,int64>"
TYPES = (SHORT, INT, LONG, DOUBLE, TEXT, FLAG, TIME, TEXTS, PAIRS, COUNTS)
"""TIME is a moment: in the files microseconds since 1970 (UTC) as an integer."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record: its name, one of TYPES, and what it says."""

    name: str
    type: str
    description: str


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of record. `own`: its fields behind those of the envelope. `sampled`: some are left out on purpose, so
    they are also the first to go when there is no room. `varying`: its own fields with other values in each record;
    in the others the same few come together again and again. Empty: all vary."""

    name: str
    description: str
    own: tuple[Field, ...]
    sampled: bool = False
    varying: tuple[str, ...] = ()

    @property
    def recurring(self) -> tuple[str, ...]:
        """Its own fields that do not vary."""
        return tuple(field.name for field in self.own if self.varying and field.name not in self.varying)

    @property
    def fields(self) -> tuple[Field, ...]:
        """All fields, in the order of the files."""
        return (*ENVELOPE, *self.own)


def _fields(*rows: tuple[str, str, str]) -> tuple[Field, ...]:
    return tuple(Field(*row) for row in rows)


ENVELOPE = _fields(
    ("v", SHORT, "Version of this table."),
    ("mesh", TEXT, "Name of the mesh: namespace/router resource, or what the configuration says."),
    ("router", TEXT, "Identity of the router that wrote the record."),
    ("boot", LONG, "When the router started, in milliseconds since 1970: tells incarnations apart."),
    ("seq", LONG, "Number of the record, from 1, gapless for each router, boot and kind: a gap is a lost record."),
    ("ts", TIME, "When, by the wall clock of the router."),
    ("mono_us", LONG, "When, by a clock of the router that nobody sets, in microseconds: for differences."),
)

_COUNTERS = (
    ("deliveries", LONG, "Deliveries so far."),
    ("presettled", LONG, "Pre-settled ones among them."),
    ("dropped_presettled", LONG, "Pre-settled ones that were dropped."),
    ("accepted", LONG, "Deliveries that ended accepted."),
    ("rejected", LONG, "Deliveries that ended rejected."),
    ("released", LONG, "Deliveries that ended released."),
    ("modified", LONG, "Deliveries that ended modified."),
)

ROUTER = Kind(
    "router",
    "A router, at each interval: counters since its boot.",
    _fields(
        ("mode", TEXT, "standalone or interior."),
        ("version", TEXT, "Version of the software."),
        ("uptime_s", LONG, "Seconds since its boot."),
        ("connections", INT, "Connections."),
        ("links", INT, "Links."),
        ("addresses", INT, "Addresses that it knows."),
        ("nodes", INT, "Other routers that it knows."),
        ("autolinks", INT, "Autolinks."),
        ("linkroutes", INT, "Link routes."),
        *_COUNTERS[1:],
        ("ingress", LONG, "Deliveries that came from clients."),
        ("egress", LONG, "Deliveries that went to clients."),
        ("transit", LONG, "Deliveries between other routers."),
        ("ingress_route_container", LONG, "Deliveries that came from route-containers."),
        ("egress_route_container", LONG, "Deliveries that went to route-containers."),
        ("fallback", LONG, "Deliveries that went to a fallback destination."),
        ("delayed_1s", LONG, "Deliveries that took between 1 and 10 seconds to settle."),
        ("delayed_10s", LONG, "Deliveries that took longer than 10 seconds to settle."),
        ("stuck", INT, "Deliveries unsettled now for more than 10 seconds."),
        ("blocked_links", INT, "Links that have had no credit for more than 10 seconds."),
        ("unsettled", INT, "Deliveries of clients that wait for an outcome or for a consumer."),
        ("draining", TEXT, "none, draining or drained."),
        ("cpu_us", LONG, "CPU time of the process so far, in microseconds."),
        ("rss", LONG, "Bytes of memory that the process holds."),
        ("loop_lag_us", LONG, "How late the event loop was at worst since the last record, in microseconds."),
        ("records", COUNTS, "Records so far, by kind: the last seq of each."),
        ("dropped", COUNTS, "Records that were dropped because there was no room, by kind."),
    ),
)

CONNECTION = Kind(
    "connection",
    "A connection: when it opens, at each interval, when it ends.",
    _fields(
        ("event", TEXT, "open, interval or close."),
        ("conn_id", LONG, "Its number."),
        ("container", TEXT, "The peer's container-id."),
        ("host", TEXT, "The peer's address."),
        ("dir", TEXT, "in or out."),
        ("role", TEXT, "normal, inter-router, route-container."),
        ("vhost", TEXT, "The hostname of the peer's open."),
        ("user", TEXT, "Who it is."),
        ("sasl", TEXT, "The SASL mechanism."),
        ("tls_proto", TEXT, "The version of TLS, null for none."),
        ("tls_cipher", TEXT, "Its cipher."),
        ("uptime_s", LONG, "Seconds since it opened."),
        ("last_delivery_s", LONG, "Seconds since its last delivery, null for none so far."),
        ("properties", PAIRS, "The properties of the peer's open, as text."),
        ("error", TEXT, "Why it ended, null where it ended in order."),
        ("octets_in", LONG, "Bytes that came so far; TLS is not counted."),
        ("octets_out", LONG, "Bytes that went so far; TLS is not counted."),
    ),
)

LINK = Kind(
    "link",
    "A link: when it attaches, at each interval in which it changed, when it detaches. Counters since its attach.",
    _fields(
        ("event", TEXT, "attach, interval or detach."),
        ("link_id", LONG, "Its number, unique for a boot of the router."),
        ("conn_id", LONG, "The connection's number."),
        ("container", TEXT, "The peer's container-id."),
        ("name", TEXT, "Its name."),
        ("dir", TEXT, "in: the peer sends; out: the peer receives."),
        ("type", TEXT, "endpoint, router-control, inter-router."),
        ("role", TEXT, "The connection's role."),
        ("address", TEXT, "Its address, null for an anonymous sender."),
        ("phase", SHORT, "The address's phase."),
        ("peer", LONG, "link_id of the other half of a routed link."),
        ("capacity", INT, "Credit that the router gives or may be given."),
        ("credit", LONG, "Credit now."),
        ("zero_credit_s", LONG, "Seconds without credit, for an outgoing link."),
        ("undelivered", LONG, "Deliveries that wait for credit."),
        ("unsettled", LONG, "Deliveries that wait for an outcome."),
        *_COUNTERS,
        ("delayed_1s", LONG, "Deliveries that took between 1 and 10 seconds to settle."),
        ("delayed_10s", LONG, "Deliveries that took longer than 10 seconds to settle."),
        ("stuck", LONG, "Deliveries unsettled now for more than 10 seconds."),
        ("priority", SHORT, "Its priority, between routers."),
    ),
)

ADDRESS = Kind(
    "address",
    "An address, at each interval in which it changed, and when nothing refers to it any more. Counters since the "
    "router's boot; they may begin anew for an address that comes again after 10,000 others went.",
    _fields(
        ("address", TEXT, "The address."),
        ("phase", SHORT, "Its phase; 22 is that of fallback destinations."),
        ("distribution", TEXT, "How its messages are distributed."),
        ("in_process", SHORT, "1 where the router itself takes its messages."),
        ("subscribers", INT, "Consumers at this router."),
        ("producers", INT, "Producers at this router."),
        ("remotes", INT, "Other routers with consumers."),
        ("ingress", LONG, "Deliveries that came in here."),
        ("egress", LONG, "Deliveries that went out here."),
        ("transit", LONG, "Deliveries that passed."),
        ("to_container", LONG, "Deliveries to route-containers."),
        ("from_container", LONG, "Deliveries from route-containers."),
        ("pending", LONG, "Deliveries that wait here for a consumer."),
        ("outstanding", COUNTS, "Unsettled deliveries out to each other router (balanced addresses)."),
    ),
)

NODE = Kind(
    "node",
    "What a router knows of another one, or of itself: on each change and each hour.",
    _fields(
        ("dest", TEXT, "The router that it is about."),
        ("cost", INT, "What the way there costs."),
        ("next_hop", TEXT, "The neighbour that leads there; null for itself and for neighbours."),
        ("neighbours", COUNTS, "Its links to its neighbours, with their costs."),
        ("valid_origins", TEXTS, "Routers whose messages to it come this way."),
        ("instance", LONG, "Its incarnation, in seconds since 1970."),
        ("link_id", LONG, "Our connection to it, where it is a neighbour."),
        ("gone", FLAG, "True when it is not known any more."),
    ),
)

AUTOLINK = Kind(
    "autolink",
    "An autolink: on each transition and each hour.",
    _fields(
        ("name", TEXT, "Its name."),
        ("address", TEXT, "The address in the mesh."),
        ("external_address", TEXT, "The address at the container, null for the same."),
        ("dir", TEXT, "in or out."),
        ("phase", SHORT, "Its phase."),
        ("from", TEXT, "The state that it left, null for none."),
        ("to", TEXT, "The state that it is in; null when it was removed."),
        ("container", TEXT, "The container-id that it is for, null where it is for a connection."),
        ("connection", TEXT, "The connection that it is for."),
        ("last_error", TEXT, "Why it failed."),
    ),
)

LINKROUTE = Kind(
    "linkroute",
    "A link route: on each transition and each hour.",
    _fields(
        ("name", TEXT, "Its name."),
        ("pattern", TEXT, "The prefix or pattern."),
        ("dir", TEXT, "in, out or both."),
        ("from", TEXT, "The state that it left, null for none."),
        ("to", TEXT, "The state that it is in; null when it was removed."),
        ("container", TEXT, "The container-id that it is for, null where it is for a connection."),
        ("connection", TEXT, "The connection that it is for."),
    ),
)

EVENT = Kind(
    "event",
    "Something that happened: a router that came or went, a refused link, a denial, a warning of the log.",
    _fields(
        (
            "event",
            TEXT,
            "connection.up, connection.down (with routers and route-containers), connection.refused, link.refused, "
            "policy.denied (either, for want of a right or over a limit), topology.change (new paths), "
            "topology.converged (they have settled), log.warning, log.error, log.critical.",
        ),
        ("severity", TEXT, "info, warning or error."),
        ("object", TEXT, "What it is about."),
        (
            "detail",
            PAIRS,
            "More about it. Of topology.*: change_id counts the router's own computations of paths, so routers do not "
            "share it; changes: how many followed each other closely; duration_us: from the first news to the last "
            "of these paths, by the router's steady clock (the record itself comes 5 s later).",
        ),
    ),
)

DELIVERY = Kind(
    "delivery",
    "A sampled delivery, once where it came in and once at each router where it went out.",
    _fields(
        ("sid", LONG, "Number of the sample, the same at each router."),
        ("half", TEXT, "in: at the router where it came in; out: at one where it went out."),
        ("address", TEXT, "The address."),
        ("phase", SHORT, "Its phase."),
        ("priority", SHORT, "Its priority."),
        ("ingress", TEXT, "The router where it came in."),
        ("egress", TEXT, "The router where it went out; null in the half `in`."),
        ("path", TEXT, "The routers that it passed, with | between them; null in the half `in`."),
        ("hops", SHORT, "Steps between routers."),
        ("size", INT, "Bytes without the message annotations, as far as they were known at the time."),
        ("streaming", FLAG, "Whether it came in several frames."),
        ("in_link", LONG, "link_id where it came in."),
        ("out_link", LONG, "link_id where it went out."),
        ("producer", TEXT, "Container-id of the sender; null in the half `out`."),
        ("consumer", TEXT, "Container-id of the receiver; null in the half `in`."),
        (
            "outcome",
            TEXT,
            "accepted, rejected, released, modified, presettled, dropped, settled (without one), lost (its sender).",
        ),
        ("presettled", FLAG, "Whether the sender wanted no outcome."),
        ("queue_us", LONG, "Microseconds that it waited at this router for credit or for a consumer."),
        ("settle_us", LONG, "Microseconds from its arrival to its outcome, by the clock of this one router."),
        ("weight", DOUBLE, "How many deliveries it stands for, the same at each router."),
    ),
    sampled=True,
    varying=("sid", "size", "queue_us", "settle_us"),
)

KINDS = {
    kind.name: kind
    for kind in (ROUTER, CONNECTION, LINK, ADDRESS, NODE, AUTOLINK, LINKROUTE, EVENT, DELIVERY)
}


# ---- files

SUFFIX = ".ndjson.gz"
PARTIAL = ".tmp-"
"""Begins the name of a file that is being written."""
_NAME = re.compile(r"(?P<router>.+)-(?P<boot>\d+)-(?P<first>\d{12,})-(?P<count>\d+)\.ndjson\.gz")
_FOLDER = re.compile(r"(?:.*/)?v(?P<v>\d+)/kind=(?P<kind>[a-z]+)/dt=(?P<dt>\d{4}-\d\d-\d\d)/hr=(?P<hr>\d\d)")


@dataclass(frozen=True, slots=True)
class FileName:
    """What the path of a file says of its content: the hour (UTC, `dt` as 2026-01-31, `hr` from 0 to 23) in which its
    records were made, whose they are, the seq of the first, and how many there are.

    It follows from the content: whoever writes or copies a file twice has it once.
    """

    kind: str
    dt: str
    hr: int
    router: str
    boot: int
    first: int
    count: int

    @property
    def folder(self) -> str:
        """The folder below the root."""
        return f"v{VERSION}/kind={self.kind}/dt={self.dt}/hr={self.hr:02d}"

    @property
    def path(self) -> str:
        """The path below the root."""
        name = quote(self.router, safe="-_.~")
        return f"{self.folder}/{name}-{self.boot}-{self.first:012d}-{self.count}{SUFFIX}"


def parse_path(path: str) -> FileName | None:
    """What a path says; None for one that is no finished file of this VERSION."""
    folder, _, name = path.rpartition("/")
    place, found = _FOLDER.fullmatch(folder), _NAME.fullmatch(name)
    if place is None or found is None or name.startswith(PARTIAL):
        return None
    if int(place["v"]) != VERSION or place["kind"] not in KINDS or int(place["hr"]) > 23:
        return None
    return FileName(
        place["kind"],
        place["dt"],
        int(place["hr"]),
        unquote(found["router"]),
        int(found["boot"]),
        int(found["first"]),
        int(found["count"]),
    )
