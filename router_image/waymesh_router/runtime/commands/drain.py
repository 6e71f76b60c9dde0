"""`waymesh-router --drain`: drains a running router and waits for completion. A pod runs it before it is stopped."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from waymesh_client.errors import ClientError
from waymesh_client.management import ManagementClient

POLL_S = 0.2
REQUEST_S = 5.0
TRIES = 3
GRACE_S = 5.0
"""Additional time, after the router's own time limit, for it to report completion."""


def drain(url: str, timeout_s: int | None) -> int:
    """Drain the router that listens at `url`; returns the exit code: 0, or 1 with the reason on stderr."""
    changes: dict[str, Any] = {"draining": True}
    if timeout_s is not None:
        changes["drainTimeoutSeconds"] = timeout_s
    try:
        client = ManagementClient(url, timeout_s=REQUEST_S)
        try:
            return _wait(client, client.update(changes, "router"))
        finally:
            client.close()
    except (ClientError, ValueError) as error:
        return _failed(str(error))


def _wait(client: ManagementClient, state: Mapping[str, Any]) -> int:
    """Wait until the router is drained; raises ClientError if it no longer responds."""
    end = time.monotonic() + float(state["drainTimeoutSeconds"]) + GRACE_S
    failures = 0
    while state["drainStatus"] != "drained":
        if time.monotonic() > end:
            return _failed(f"not completed in time: {state['unsettledDeliveries']} deliveries are unsettled")
        time.sleep(POLL_S)
        try:
            state = client.read("router")
            failures = 0
        except ClientError:  # the client reconnects by itself
            failures += 1
            if failures == TRIES:
                raise
    return 0


def _failed(reason: str) -> int:
    sys.stderr.write(f"waymesh-router: drain: {reason}\n")
    return 1
