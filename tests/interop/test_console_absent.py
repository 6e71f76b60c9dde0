"""A router whose installation is without the console refuses `console: yes`, and says what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section, standalone
from tests.kit.waiting import wait_until
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.engine_independent]
TOLD = "listener web: console: this installation is without it (No such file or directory); in a checkout: make console"
PROGRAM = """
import sys
from pathlib import Path
from waymesh_router.runtime.http import console
console.BUNDLE = Path({folder!r})
from waymesh_router.runtime.main import main
sys.exit(main(sys.argv[4:]))
"""
"""Runs a router by the command that follows its own: python, -m, the module, its arguments."""


@pytest.fixture
def within(tmp_path: Path) -> list[str]:
    """Words before the command of a router: with them it finds no bundle."""
    program = tmp_path / "without.py"
    program.write_text(PROGRAM.format(folder=str(tmp_path / "none")), encoding="utf-8")
    return [sys.executable, str(program)]


@pytest.fixture
def router(tmp_path: Path, within: list[str]) -> Iterator[RouterProcess]:
    made = standalone(tmp_path, within=within).start()
    yield made
    made.stop()


def web() -> dict[str, object]:
    return {"host": "127.0.0.1", "port": free_port(), "http": True, "console": True}


def test_a_running_router_refuses_such_a_listener_and_serves_on(router: RouterProcess) -> None:
    given = web()
    with ManagementClient(router.url) as client:
        with pytest.raises(ManagementError) as refused:
            client.create("listener", given | {"port": str(given["port"])}, name="web")
        assert TOLD in str(refused.value)
        assert "web" not in [row["name"] for row in client.query("listener", ["name"])]
        # The port is free: the same listener without the console is there at once.
        client.create("listener", given | {"port": str(given["port"]), "console": False}, name="web")
    with Client(router.url) as receiver:
        receiver.receiver("orders")


def test_a_router_with_such_a_configuration_does_not_start(tmp_path: Path, within: list[str]) -> None:
    router = standalone(tmp_path, extra=section("listener", name="web", **web()), within=within)
    router.launch()
    wait_until(lambda: not router.alive(), what="its end")
    assert TOLD in router.log
    assert "Traceback" not in router.log
    assert router.stop() == 1
