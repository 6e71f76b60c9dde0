"""HTTP pages of a router: liveness, readiness, metrics. Pure; the runtime serves them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from waymesh_router.management.metrics import CONTENT_TYPE, metrics_page
from waymesh_router.router import Router

OK = 200
UNAVAILABLE = 503


@dataclass(frozen=True, slots=True)
class Page:
    """A page and its HTTP status."""

    status: int
    text: str
    content_type: str = "text/plain; charset=utf-8"


def page(router: Router, listener: Mapping[str, Any], path: str, now: float) -> Page | None:
    """The page for a path; None if there is none, or the attributes of the listener disable it."""
    if path == "/healthz" and listener.get("healthz") is not False:
        return Page(OK, "OK\n")
    if path == "/readyz" and listener.get("healthz") is not False:
        reason = router.not_ready(now)
        return Page(UNAVAILABLE, f"{reason}\n") if reason else Page(OK, "OK\n")
    if path == "/metrics" and listener.get("metrics") is not False:
        return Page(OK, metrics_page(router, now), CONTENT_TYPE)
    return None
