"""`waymesh report`: the report of the analytics job, from the server that the chart sets up for it."""

from __future__ import annotations

import sys
from pathlib import Path

from waymesh_operator.errors import WaymeshError

from .cluster import Where

SELECTOR = "app.kubernetes.io/name=waymesh-analytics,app.kubernetes.io/component=report"
PORT = 8080


def run_report(where: Where, out: Path | None, name: str) -> int:
    """Fetch a file of the report into `out`, or to stdout if it is None, and return the exit code.

    Raises WaymeshError.
    """
    from waymesh_operator.kube.forward import fetch  # the synchronous client is slow to import

    data = fetch(where.context, where.namespace, SELECTOR, f"{PORT}/{name}")
    if out is None:
        sys.stdout.buffer.write(data)
        return 0
    try:
        out.write_bytes(data)
    except OSError as error:
        raise WaymeshError(f"{out}: {error.strerror}") from None
    print(f"{out}: {len(data):,} bytes")
    return 0
