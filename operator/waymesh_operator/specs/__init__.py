"""Resources as typed values, made from manifests that the CRDs have accepted."""

from __future__ import annotations

from .model import (
    S3,
    Address,
    AutoLink,
    Broker,
    BrokerTls,
    Dependent,
    LinkRoute,
    Listener,
    Pod,
    Ref,
    Resources,
    Router,
    RouterTls,
    Telemetry,
)
from .parse import parse_address, parse_autolink, parse_broker, parse_linkroute, parse_router, ref_of

__all__ = [
    "S3",
    "Address",
    "AutoLink",
    "Broker",
    "BrokerTls",
    "Dependent",
    "LinkRoute",
    "Listener",
    "Pod",
    "Ref",
    "Resources",
    "Router",
    "RouterTls",
    "Telemetry",
    "parse_address",
    "parse_autolink",
    "parse_broker",
    "parse_linkroute",
    "parse_router",
    "ref_of",
]
