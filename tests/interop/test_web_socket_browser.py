"""rhea in a real browser: its page comes from httpRootDir, and it speaks AMQP over WebSocket."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.interop.programs import HERE, rhea_folder
from tests.kit.browser import Page, opened
from tests.kit.fixtures import StartRouter
from tests.kit.ports import free_port
from tests.kit.process import section
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

DEADLINE_S = 90.0


def outcome(page: Page, url: str) -> Any:
    """What the page tells at the end."""
    page.visit(url)
    return wait_until(lambda: page.run("outcome"), DEADLINE_S, "the outcome of the page")


def test_rhea_in_a_page(start_router: StartRouter, tmp_path: Path) -> None:
    root = tmp_path / "console"
    shutil.copytree(HERE / "browser", root)
    shutil.copy(rhea_folder() / "node_modules" / "rhea" / "dist" / "rhea.js", root)
    ports = {name: free_port() for name in ("own", "open", "closed")}

    def listener(name: str, **attributes: object) -> str:
        return section("listener", name=name, host="127.0.0.1", port=ports[name], http=True, **attributes)

    own = f"http://127.0.0.1:{ports['own']}"
    text = listener("own", httpRootDir=root) + listener("open", allowedOrigins=own) + listener("closed")
    router = start_router(extra=text)
    router.ports += ports.values()
    router.wait_listening()
    (tmp_path / "browser").mkdir()
    everything = {"sent": 1001, "accepted": 1001, "received": 1001, "inOrder": True, "large": True}
    with opened(tmp_path / "browser") as page:
        assert outcome(page, f"{own}/") == everything
        assert outcome(page, f"{own}/?to=ws://127.0.0.1:{ports['open']}") == everything
        assert page.errors == []
        assert outcome(page, f"{own}/?to=ws://127.0.0.1:{ports['closed']}") == "disconnected"
        assert any("403" in error for error in page.errors)
