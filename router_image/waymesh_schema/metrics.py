"""Prometheus metrics of a router: names, types and labels, for the exporter, the documentation and the checks of
dashboards and alert rules. The names `qdr_*` are those of qdrouterd, which also uses `_total` for gauges."""

from __future__ import annotations

from dataclasses import dataclass

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"
NAMES = 200
"""Maximum number of addresses (the busiest) and of autolinks (the first) with series of their own."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One family of series."""

    name: str
    type: str
    description: str
    labels: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its series."""
        ends = ("_bucket", "_sum", "_count") if self.type == HISTOGRAM else ("",)
        return tuple(self.name + end for end in ends)


def _metrics(*rows: Metric) -> dict[str, Metric]:
    return {row.name: row for row in rows}


METRICS = _metrics(
    Metric("qdr_connections_total", GAUGE, "Connections."),
    Metric("qdr_links_total", GAUGE, "Links."),
    Metric("qdr_addresses_total", GAUGE, "Known addresses."),
    Metric("qdr_routers_total", GAUGE, "Other routers in the mesh."),
    Metric("qdr_link_routes_total", GAUGE, "Link routes."),
    Metric("qdr_auto_links_total", GAUGE, "Autolinks."),
    Metric("qdr_presettled_deliveries_total", COUNTER, "Pre-settled deliveries."),
    Metric("qdr_dropped_presettled_deliveries_total", COUNTER, "Pre-settled deliveries that were dropped."),
    Metric("qdr_accepted_deliveries_total", COUNTER, "Deliveries that ended accepted."),
    Metric("qdr_released_deliveries_total", COUNTER, "Deliveries that ended released."),
    Metric("qdr_rejected_deliveries_total", COUNTER, "Deliveries that ended rejected."),
    Metric("qdr_modified_deliveries_total", COUNTER, "Deliveries that ended modified."),
    Metric("qdr_deliveries_ingress_total", COUNTER, "Deliveries that came from clients."),
    Metric("qdr_deliveries_egress_total", COUNTER, "Deliveries that went to clients."),
    Metric("qdr_deliveries_transit_total", COUNTER, "Deliveries forwarded to another router."),
    Metric("qdr_deliveries_ingress_route_container_total", COUNTER, "Deliveries that came from route-containers."),
    Metric("qdr_deliveries_egress_route_container_total", COUNTER, "Deliveries that went to route-containers."),
    Metric("qdr_deliveries_delayed_1sec_total", COUNTER, "Deliveries that took between 1 and 10 s to settle."),
    Metric("qdr_deliveries_delayed_10sec_total", COUNTER, "Deliveries that took longer than 10 s to settle."),
    Metric("qdr_deliveries_stuck_total", GAUGE, "Deliveries unsettled now for more than 10 s."),
    Metric("qdr_links_blocked_total", GAUGE, "Links that have had no credit for more than 10 s."),
    Metric("qdr_deliveries_redirected_to_fallback_total", COUNTER, "Deliveries to a fallback destination."),
    Metric("waymesh_router_info", GAUGE, "Always 1; the labels describe the router.", ("id", "mode", "version")),
    Metric("waymesh_uptime_seconds", GAUGE, "Time since the start."),
    Metric("waymesh_buffered_bytes", GAUGE, "Bytes of waiting messages, as maxBufferedBytes counts them."),
    Metric("waymesh_expired_deliveries_total", COUNTER, "Deliveries that expired while they waited for a consumer."),
    Metric("waymesh_links_held", GAUGE, "Links whose session windows are closed because too many of their bytes wait."),
    Metric("waymesh_memory_bytes", GAUGE, "Resident memory of the process."),
    Metric("waymesh_memory_limit_bytes", GAUGE, "Resident memory that maxMemory or its default allows; 0: no limit."),
    Metric("waymesh_links_awaiting_memory", GAUGE, "Links of clients that get no credit because memory is short."),
    Metric(
        "waymesh_connections_refused_total",
        COUNTER,
        "Connections refused because of a limit: memory (maxMemory), listener (maxConnections).",
        ("limit",),
    ),
    Metric("waymesh_internal_errors_total", COUNTER, "Errors in the router's own code; each is logged."),
    Metric("waymesh_draining", GAUGE, "1 while the router drains."),
    Metric("waymesh_unsettled_deliveries", GAUGE, "Deliveries of clients that wait for an outcome or a consumer."),
    Metric("waymesh_deliveries_total", COUNTER, "Deliveries by outcome.", ("outcome",)),
    Metric(
        "waymesh_address_deliveries_total",
        COUNTER,
        "Deliveries of an address: ingress, egress, transit.",
        ("address", "phase", "direction"),
    ),
    Metric("waymesh_address_consumers", GAUGE, "Consumers of an address at this router.", ("address", "phase")),
    Metric("waymesh_address_producers", GAUGE, "Producers of an address at this router.", ("address", "phase")),
    Metric("waymesh_autolinks", GAUGE, "Autolinks by state.", ("state",)),
    Metric("waymesh_autolink_up", GAUGE, "1 while an autolink is active.", ("name",)),
    Metric("waymesh_topology_changes_total", COUNTER, "Changes of the paths to other routers."),
    Metric(
        "waymesh_policy_denied_total",
        COUNTER,
        "What was refused by permission or limit: connection, link, session, message, size (message over "
        "maxMessageSize), management (request).",
        ("kind",),
    ),
    Metric(
        "waymesh_tls_certificate_not_after_seconds",
        GAUGE,
        "Expiry of the certificate of an sslProfile, in seconds since 1970.",
        ("profile",),
    ),
    Metric("waymesh_users_refused", GAUGE, "Invalid lines of the user file; their users cannot log in."),
    Metric("waymesh_metrics_names_limit", GAUGE, "Maximum number of addresses, and of autolinks, with series."),
    Metric("waymesh_metrics_left_out", GAUGE, "Addresses and autolinks beyond this limit."),
    Metric(
        "waymesh_delivery_settle_seconds",
        HISTOGRAM,
        "Time from the arrival of a delivery at its ingress router to its outcome; needs telemetry.",
        ("le",),
    ),
    Metric("waymesh_telemetry_records_total", COUNTER, "Telemetry records made; needs telemetry.", ("kind",)),
    Metric(
        "waymesh_telemetry_dropped_total",
        COUNTER,
        "Lost records: backlog (writer too slow), disk (write failed), room (deleted for newer ones).",
        ("kind", "reason"),
    ),
)
