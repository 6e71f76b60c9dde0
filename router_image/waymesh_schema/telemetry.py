"""The telemetry that routers export: the kinds of records, their fields, and the names of the files.

The exporter, the documentation and the analytics job share these definitions. A record is a line of JSON (NDJSON) with
the fields of `ENVELOPE` first; files are compressed by gzip. Compatibility: fields may be added, and are null in older
records; renaming a field or changing its type requires a new VERSION, whose files have a separate root.
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
"""TIME is an integer in the files: microseconds since 1970 (UTC)."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record."""

    name: str
    # One of TYPES.
    type: str
    description: str


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of record."""

    name: str
    description: str
    # The fields after those of the envelope.
    own: tuple[Field, ...]
    # Only a sample is recorded; these records are also dropped first when space runs out.
    sampled: bool = False
    # The own fields whose values differ in each record, while combinations of the others recur; empty: all differ.
    varying: tuple[str, ...] = ()

    @property
    def recurring(self) -> tuple[str, ...]:
        """The names of the own fields that are not `varying`."""
        return tuple(field.name for field in self.own if self.varying and field.name not in self.varying)

    @property
    def fields(self) -> tuple[Field, ...]:
        """All fields in the order of the files."""
        return (*ENVELOPE, *self.own)


def _fields(*rows: tuple[str, str, str]) -> tuple[Field, ...]:
    return tuple(Field(*row) for row in rows)


ENVELOPE = _fields(
    ("v", SHORT, "Version of the record format."),
    ("mesh", TEXT, "Name of the mesh: namespace/router resource, or the value in the configuration."),
    ("router", TEXT, "Identity of the router that wrote the record."),
    ("boot", LONG, "When the router started, in milliseconds since 1970; identifies this run of the router."),
    ("seq", LONG, "Number of the record, from 1 without gaps for each router, boot and kind; a gap is a lost record."),
    ("ts", TIME, "Time of the record by the router's wall clock."),
    ("mono_us", LONG, "Time of the record by the router's monotonic clock, in microseconds, to compute differences."),
)

_COUNTERS = (
    ("deliveries", LONG, "Number of deliveries."),
    ("presettled", LONG, "Pre-settled deliveries."),
    ("dropped_presettled", LONG, "Pre-settled deliveries that were dropped."),
    ("accepted", LONG, "Deliveries with outcome accepted."),
    ("rejected", LONG, "Deliveries with outcome rejected."),
    ("released", LONG, "Deliveries with outcome released."),
    ("modified", LONG, "Deliveries with outcome modified."),
)

ROUTER = Kind(
    "router",
    "A router, recorded at each interval; counters since its boot.",
    _fields(
        ("mode", TEXT, "standalone or interior."),
        ("version", TEXT, "Software version."),
        ("uptime_s", LONG, "Seconds since the boot."),
        ("connections", INT, "Open connections."),
        ("links", INT, "Attached links."),
        ("addresses", INT, "Known addresses."),
        ("nodes", INT, "Other routers that are known."),
        ("autolinks", INT, "Autolinks."),
        ("linkroutes", INT, "Link routes."),
        *_COUNTERS[1:],
        ("ingress", LONG, "Deliveries received from clients."),
        ("egress", LONG, "Deliveries sent to clients."),
        ("transit", LONG, "Deliveries forwarded to another router."),
        ("ingress_route_container", LONG, "Deliveries received from route-containers."),
        ("egress_route_container", LONG, "Deliveries sent to route-containers."),
        ("fallback", LONG, "Deliveries sent to a fallback destination."),
        ("delayed_1s", LONG, "Deliveries that took between 1 and 10 seconds to settle."),
        ("delayed_10s", LONG, "Deliveries that took longer than 10 seconds to settle."),
        ("stuck", INT, "Deliveries that have been unsettled for more than 10 seconds."),
        ("blocked_links", INT, "Links that have had no credit for more than 10 seconds."),
        ("unsettled", INT, "Deliveries of clients that wait for an outcome or a consumer."),
        ("draining", TEXT, "none, draining or drained."),
        ("cpu_us", LONG, "CPU time of the process in microseconds."),
        ("rss", LONG, "Resident memory of the process in bytes."),
        ("loop_lag_us", LONG, "Maximum delay of the event loop since the last record, in microseconds."),
        ("records", COUNTS, "The last seq of each kind of record."),
        ("dropped", COUNTS, "Records dropped for lack of space, by kind."),
    ),
)

CONNECTION = Kind(
    "connection",
    "A connection, recorded when it opens, at each interval and when it closes.",
    _fields(
        ("event", TEXT, "open, interval or close."),
        ("conn_id", LONG, "Number of the connection."),
        ("container", TEXT, "The peer's container-id."),
        ("host", TEXT, "The peer's address."),
        ("dir", TEXT, "in or out."),
        ("role", TEXT, "normal, inter-router, route-container, edge."),
        ("vhost", TEXT, "The hostname in the peer's open."),
        ("user", TEXT, "The authenticated user."),
        ("sasl", TEXT, "The SASL mechanism."),
        ("tls_proto", TEXT, "TLS version; null without TLS."),
        ("tls_cipher", TEXT, "TLS cipher."),
        ("uptime_s", LONG, "Seconds since the open."),
        ("last_delivery_s", LONG, "Seconds since the last delivery; null if there was none."),
        ("properties", PAIRS, "The properties in the peer's open, as text."),
        ("error", TEXT, "The error that closed the connection; null for a normal close."),
        ("octets_in", LONG, "Bytes received, without the overhead of TLS."),
        ("octets_out", LONG, "Bytes sent, without the overhead of TLS."),
    ),
)

LINK = Kind(
    "link",
    "A link, recorded at attach, at each interval in which it changed and at detach; counters since the attach.",
    _fields(
        ("event", TEXT, "attach, interval or detach."),
        ("link_id", LONG, "Number of the link, unique within a boot of the router."),
        ("conn_id", LONG, "Number of the connection."),
        ("container", TEXT, "The peer's container-id."),
        ("name", TEXT, "Name of the link."),
        ("dir", TEXT, "in: the peer sends; out: the peer receives."),
        ("type", TEXT, "endpoint, router-control, inter-router."),
        ("role", TEXT, "Role of the connection."),
        ("address", TEXT, "Address; null for an anonymous sender."),
        ("phase", SHORT, "Phase of the address."),
        ("peer", LONG, "link_id of the other half of a routed link."),
        ("capacity", INT, "Maximum credit of the link."),
        ("credit", LONG, "Current credit."),
        ("zero_credit_s", LONG, "Seconds without credit (outgoing links)."),
        ("undelivered", LONG, "Deliveries that wait for credit."),
        ("unsettled", LONG, "Deliveries that wait for an outcome."),
        *_COUNTERS,
        ("delayed_1s", LONG, "Deliveries that took between 1 and 10 seconds to settle."),
        ("delayed_10s", LONG, "Deliveries that took longer than 10 seconds to settle."),
        ("stuck", LONG, "Deliveries that have been unsettled for more than 10 seconds."),
        ("priority", SHORT, "Priority of a link between routers."),
    ),
)

ADDRESS = Kind(
    "address",
    "An address, recorded at each interval in which it changed and when it is removed. Counters since the boot; they "
    "may restart for an address that returns after 10,000 others were removed.",
    _fields(
        ("address", TEXT, "The address."),
        ("phase", SHORT, "Phase; 22 for fallback destinations."),
        ("distribution", TEXT, "Distribution of its messages."),
        ("in_process", SHORT, "1 if the router itself consumes the messages."),
        ("subscribers", INT, "Consumers at this router."),
        ("producers", INT, "Producers at this router."),
        ("remotes", INT, "Other routers with consumers."),
        ("ingress", LONG, "Deliveries that entered the mesh at this router."),
        ("egress", LONG, "Deliveries that left the mesh at this router."),
        ("transit", LONG, "Deliveries forwarded to another router."),
        ("to_container", LONG, "Deliveries to route-containers."),
        ("from_container", LONG, "Deliveries from route-containers."),
        ("pending", LONG, "Deliveries that wait at this router for a consumer."),
        ("outstanding", COUNTS, "Unsettled deliveries sent to each other router (balanced addresses)."),
    ),
)

NODE = Kind(
    "node",
    "What a router knows about another router or itself, recorded at each change and each hour.",
    _fields(
        ("dest", TEXT, "The router that the record describes."),
        ("cost", INT, "Cost of the path to it."),
        ("next_hop", TEXT, "Next hop; null for neighbours and the router itself."),
        ("neighbours", COUNTS, "Its neighbours with the costs of the links."),
        ("valid_origins", TEXTS, "Valid origins: routers whose messages to it pass through this router."),
        ("instance", LONG, "Start of its current run, in seconds since 1970."),
        ("link_id", LONG, "link_id of the link to it, if it is a neighbour."),
        ("gone", FLAG, "True when it is no longer known."),
    ),
)

AUTOLINK = Kind(
    "autolink",
    "An autolink, recorded at each transition and each hour.",
    _fields(
        ("name", TEXT, "Name of the entity."),
        ("address", TEXT, "The address in the mesh."),
        ("external_address", TEXT, "The address at the container; null if it is the same."),
        ("dir", TEXT, "in or out."),
        ("phase", SHORT, "Phase of the address."),
        ("from", TEXT, "Previous state; null if there is none."),
        ("to", TEXT, "Current state; null if it was removed."),
        ("container", TEXT, "The container-id that it names; null if it names a connection."),
        ("connection", TEXT, "The connection that it names."),
        ("last_error", TEXT, "Reason of the last failure."),
    ),
)

LINKROUTE = Kind(
    "linkroute",
    "A link route, recorded at each transition and each hour.",
    _fields(
        ("name", TEXT, "Name of the entity."),
        ("pattern", TEXT, "The prefix or pattern."),
        ("dir", TEXT, "in, out or both."),
        ("from", TEXT, "Previous state; null if there is none."),
        ("to", TEXT, "Current state; null if it was removed."),
        ("container", TEXT, "The container-id that it names; null if it names a connection."),
        ("connection", TEXT, "The connection that it names."),
    ),
)

ORDERLY_STOP = "the router is being stopped"
"""In the error of a connection: the peer was stopped properly, the connection was not lost."""

EVENT = Kind(
    "event",
    "An event: a router that connected or was lost, a refused link, a denial, a change, a warning in the log.",
    _fields(
        (
            "event",
            TEXT,
            "connection.up, connection.down (with routers and route-containers), connection.refused, link.refused, "
            "link.blocked, delivery.stuck, "
            "policy.denied (a connection, link or management request without permission or over a limit), "
            "policy.limit (a maximum number of connections is nearly reached), "
            "management.create, management.update, management.delete (a change by a management request), "
            "topology.change (new paths), topology.converged (no more new paths), "
            "log.warning, log.error, log.critical.",
        ),
        ("severity", TEXT, "info, warning or error."),
        ("object", TEXT, "What the event is about."),
        (
            "detail",
            PAIRS,
            "Details. For topology.*: change_id counts the path computations of this router, so it differs between "
            "routers; changes: how many followed each other closely; duration_us: from the first news to the last "
            "computation, by the router's monotonic clock (the record itself follows 5 s later).",
        ),
    ),
)

DELIVERY = Kind(
    "delivery",
    "A sampled delivery, recorded at its ingress router and at each egress router.",
    _fields(
        ("sid", LONG, "Number of the sample, the same at all routers."),
        ("half", TEXT, "in: recorded at the ingress router; out: at an egress router."),
        ("address", TEXT, "The address."),
        ("phase", SHORT, "Phase of the address."),
        ("priority", SHORT, "Priority of the message."),
        ("ingress", TEXT, "Ingress router."),
        ("egress", TEXT, "Egress router; null in the half `in`."),
        ("path", TEXT, "The routers on its path, separated by |; null in the half `in`."),
        ("hops", SHORT, "Hops between routers."),
        ("size", INT, "Bytes without the message annotations, as far as known at the time."),
        ("streaming", FLAG, "Whether it arrived in several frames."),
        ("in_link", LONG, "link_id of the incoming link."),
        ("out_link", LONG, "link_id of the outgoing link."),
        ("producer", TEXT, "Container-id of the sender; null in the half `out`."),
        ("consumer", TEXT, "Container-id of the receiver; null in the half `in`."),
        (
            "outcome",
            TEXT,
            "accepted, rejected, released, modified, presettled, dropped, settled (without an outcome) or lost (the "
            "sender disconnected).",
        ),
        ("presettled", FLAG, "Whether the sender settled it."),
        ("queue_us", LONG, "Microseconds that it waited at this router for credit or a consumer."),
        ("settle_us", LONG, "Microseconds from its arrival to its settlement, by the clock of this router."),
        ("weight", DOUBLE, "How many deliveries the sample represents, the same at all routers."),
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
"""The prefix of files that are still being written."""
_NAME = re.compile(
    r"(?P<router>.+)-(?P<boot>\d{1,19})-(?P<first>\d{12,19})-(?P<count>\d{1,19})\.ndjson\.gz", re.ASCII
)
_FOLDER = re.compile(
    r"(?:.*/)?v(?P<v>\d+)/kind=(?P<kind>[a-z]+)/dt=(?P<dt>\d{4}-\d\d-\d\d)/hr=(?P<hr>\d\d)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class FileName:
    """What the path of a file says about its content.

    The path depends only on the content: writing or copying a file twice results in a single file.
    """

    kind: str
    # The date and hour (0 to 23) of the records in UTC; the date as 2026-01-31.
    dt: str
    hr: int
    router: str
    boot: int
    # The seq of the first record.
    first: int
    # The number of records.
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
    """Parse a path; None if it is not a finished file of this VERSION."""
    folder, _, name = path.rpartition("/")
    place, found = _FOLDER.fullmatch(folder), _NAME.fullmatch(name)
    if place is None or found is None or name.startswith(PARTIAL):
        return None
    if place["v"] != str(VERSION) or place["kind"] not in KINDS or int(place["hr"]) > 23:
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
