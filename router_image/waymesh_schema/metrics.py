"""What routers tell Prometheus: names, types, labels. One table for the exporter, the documentation, and whoever checks
dashboards and alert rules. The names `qdr_*` are those of qdrouterd, which calls gauges `_total`, too."""

from __future__ import annotations

from dataclasses import dataclass

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"
NAMES = 200
"""Most addresses, and most autolinks, that get series of their own: the busiest addresses, the first autolinks."""


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
    Metric("qdr_addresses_total", GAUGE, "Addresses that the router knows."),
    Metric("qdr_routers_total", GAUGE, "Other routers that it knows."),
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
    Metric("qdr_deliveries_transit_total", COUNTER, "Deliveries between other routers."),
    Metric("qdr_deliveries_ingress_route_container_total", COUNTER, "Deliveries that came from route-containers."),
    Metric("qdr_deliveries_egress_route_container_total", COUNTER, "Deliveries that went to route-containers."),
    Metric("qdr_deliveries_delayed_1sec_total", COUNTER, "Deliveries that took between 1 and 10 s to settle."),
    Metric("qdr_deliveries_delayed_10sec_total", COUNTER, "Deliveries that took longer than 10 s to settle."),
    Metric("qdr_deliveries_stuck_total", GAUGE, "Deliveries unsettled now for more than 10 s."),
    Metric("qdr_links_blocked_total", GAUGE, "Links that have had no credit for more than 10 s."),
    Metric("qdr_deliveries_redirected_to_fallback_total", COUNTER, "Deliveries to a fallback destination."),
    Metric("waymesh_router_info", GAUGE, "1.", ("id", "mode", "version")),
    Metric("waymesh_uptime_seconds", GAUGE, "Time since the start."),
    Metric("waymesh_buffered_bytes", GAUGE, "Bytes of messages that wait here for consumers."),
    Metric("waymesh_links_held", GAUGE, "Links of senders that get no credit while too many bytes wait."),
    Metric("waymesh_memory_bytes", GAUGE, "Memory that the process holds."),
    Metric("waymesh_internal_errors_total", COUNTER, "Errors of the router's own code, each one in its log."),
    Metric("waymesh_draining", GAUGE, "1 while the router hands its clients over."),
    Metric("waymesh_unsettled_deliveries", GAUGE, "Deliveries of clients that wait for an outcome or a consumer."),
    Metric("waymesh_deliveries_total", COUNTER, "Deliveries that ended so.", ("outcome",)),
    Metric(
        "waymesh_address_deliveries_total",
        COUNTER,
        "Deliveries of an address: ingress, egress, transit.",
        ("address", "phase", "direction"),
    ),
    Metric("waymesh_address_consumers", GAUGE, "Consumers of an address at this router.", ("address", "phase")),
    Metric("waymesh_address_producers", GAUGE, "Producers of an address at this router.", ("address", "phase")),
    Metric("waymesh_autolinks", GAUGE, "Autolinks in a state.", ("state",)),
    Metric("waymesh_autolink_up", GAUGE, "1 while an autolink is active.", ("name",)),
    Metric("waymesh_topology_changes_total", COUNTER, "How often the paths to other routers have changed."),
    Metric(
        "waymesh_policy_denied_total",
        COUNTER,
        "Connections and links refused for want of a right, or over a limit.",
        ("kind",),
    ),
    Metric(
        "waymesh_tls_certificate_not_after_seconds",
        GAUGE,
        "When the certificate of an sslProfile ends, since 1970.",
        ("profile",),
    ),
    Metric("waymesh_users_refused", GAUGE, "Lines of the user file that cannot be used: their users cannot log in."),
    Metric("waymesh_metrics_names_limit", GAUGE, "Most addresses, and most autolinks, that have series of their own."),
    Metric("waymesh_metrics_left_out", GAUGE, "Addresses and autolinks that have none, being more."),
    Metric(
        "waymesh_delivery_settle_seconds",
        HISTOGRAM,
        "From the arrival of a delivery at its first router to its outcome: estimated from samples, with telemetry on.",
        ("le",),
    ),
    Metric("waymesh_telemetry_records_total", COUNTER, "Telemetry records made, with telemetry on.", ("kind",)),
    Metric(
        "waymesh_telemetry_dropped_total",
        COUNTER,
        "Records lost: backlog (the writer was behind), disk (it did not take them), room (made for newer ones).",
        ("kind", "reason"),
    ),
)
