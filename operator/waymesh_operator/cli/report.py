"""`waymesh report`: fetch the report of a cluster's analytics job."""

from __future__ import annotations

import sys
from pathlib import Path

from waymesh_operator.errors import WaymeshError

from .cluster import Where

REPORT_SELECTOR = "app.kubernetes.io/name=waymesh-analytics,app.kubernetes.io/component=report"
"""Selects the pod that serves the report of the analytics job."""
REPORT_PORT = 8080


def run_report(where: Where, out: Path | None, name: str) -> int:
    """Fetch a file of the report into `out`, or to stdout if it is None, and return the exit code.

    Raises WaymeshError.
    """
    from .forward import fetch  # the synchronous client is slow to import

    data = fetch(where.context, where.namespace, REPORT_SELECTOR, f"{REPORT_PORT}/{name}")
    if out is None:
        sys.stdout.buffer.write(data)
        return 0
    try:
        out.write_bytes(data)
    except OSError as error:
        raise WaymeshError(f"{out}: {error.strerror}") from None
    print(f"{out}: {len(data):,} bytes")
    return 0
