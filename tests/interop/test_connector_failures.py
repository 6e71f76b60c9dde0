"""A peer that accepts the connections of a connector and ends them before its first octet."""

from __future__ import annotations

import re
import socket

import pytest

from tests.kit.fixtures import StartRouter
from tests.kit.process import section
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]


def test_it_is_logged_once_with_the_event_of_other_failures(start_router: StartRouter) -> None:
    with socket.create_server(("127.0.0.1", 0)) as peer:
        port = peer.getsockname()[1]
        router = start_router(
            extra=section("connector", name="out", host="127.0.0.1", port=port, role="route-container")
        )
        for _ in range(4):
            peer.accept()[0].close()
        words = f"Connection to 127.0.0.1:{port} failed: closed before its open"
        wait_until(lambda: words in router.log)
        with ManagementClient(router.url) as management:
            wait_until(lambda: "failed" in str(management.read("connector", name="out")["connectionMsg"]))
        lines = [line for line in router.log.splitlines() if words in line]
    assert len(lines) == 1
    assert re.search(r"SERVER \(info\) connector out: .*\[event=connector\.failed .*connector=out", lines[0])
