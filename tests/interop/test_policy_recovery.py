"""An administrator of a router's machine gets in, whatever policy says of clients: docs/policy.md "Recovery"."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.guarded import LIMIT, UNAUTHORIZED, refused
from tests.interop.shared import fresh
from tests.kit.clients import Client
from tests.kit.fixtures import StartRouter
from tests.kit.ports import free_port
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

PAGE = Path(__file__).parents[2] / "docs" / "policy.md"
NOBODY = "policy {\n    enableVhostPolicy: yes\n    maxConnections: 0\n}\n"


def recovery(port: int) -> str:
    """The configuration of the page, with another port."""
    text = PAGE.read_text(encoding="utf-8").partition("<!-- recovery: begin -->\n```\n")[2].partition("```")[0]
    assert "port: 5673\n" in text
    return text.replace("port: 5673\n", f"port: {port}\n")


def test_the_page_lets_an_administrator_undo_a_policy_that_denies_all(start_router: StartRouter) -> None:
    port = free_port()
    router = start_router("A", NOBODY + recovery(port))
    router.ports.append(port)
    router.wait_listening()
    shut_out = Client(router.url, wait=False)
    assert shut_out.wait_ended() == f"{LIMIT}: connection disallowed by local policy"
    shut_out.close()

    there = f"amqp://127.0.0.1:{port}"
    with Client(there) as client:
        assert UNAUTHORIZED in refused(client.sender(fresh(), wait=False)), "it is for management alone"
    with ManagementClient(there) as administrator:
        administrator.update({"enableVhostPolicy": False, "maxConnections": 100}, "policy")
    with Client(router.url) as client:
        client.receiver(fresh())
