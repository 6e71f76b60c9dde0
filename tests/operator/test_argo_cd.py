"""The health script for Argo CD of docs/operations.md, run by Lua on the statuses that the operator writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lupa
import pytest
import yaml

from tests.operator.kit import NAMESPACE, Lab, run
from waymesh_operator.places.kubernetes import desired

pytestmark = pytest.mark.engine_independent

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def script() -> str:
    """The value of `health.lua` in the page."""
    page = PAGE.read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(data:\n  resource\.customizations:.*?)```", page, re.S)
    settings = yaml.safe_load(yaml.safe_load(block)["data"]["resource.customizations"])
    return str(settings["waymesh.io/*"]["health.lua"])


def health(lab: Lab, kind: str = "Router", name: str = "mesh") -> tuple[str, str]:
    """Status and message that Argo CD shows. It has no Lua libraries but those of the language, as here."""
    lua = lupa.LuaRuntime(unpack_returned_tuples=True)
    judge: Callable[[Any], Any] = lua.eval(f"function(obj) {script()} end")
    found = judge(lua.table_from(lab.kube.objects[kind, NAMESPACE, name], recursive=True))
    return found["status"], found["message"]


def test_a_router_from_new_to_paused() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2)
        assert health(lab) == ("Progressing", "waiting for the operator")
        await lab.turn()
        assert health(lab)[0] == "Progressing"
        await lab.settle()
        assert health(lab)[0] == "Healthy"
        lab.router(3)
        assert health(lab) == ("Progressing", "waiting for the operator"), "its status is that of the last generation"
        await lab.turn()
        assert health(lab)[0] == "Progressing"
        await lab.settle()
        assert health(lab)[0] == "Healthy"
        lab.router(3, paused=True)
        await lab.turn()
        assert health(lab)[0] == "Suspended"

    run(story)


def test_a_router_that_is_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(lab: Lab) -> None:
        lab.router(2)
        await lab.settle()
        monkeypatch.setattr(desired, "LIMIT_BYTES", 10)
        lab.router(3)
        await lab.turn()
        status, message = health(lab)
        assert status == "Degraded"
        assert message.startswith("Stalled: "), message

    run(story)


def test_what_belongs_to_a_router() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2)
        lab.add("Address", "orders", prefix="orders", distribution="balanced")
        lab.add("AutoLink", "in", address="orders", direction="in", brokerRef={"name": "nowhere"})
        assert health(lab, "Address", "orders") == ("Progressing", "waiting for the operator")
        await lab.settle()
        assert health(lab, "Address", "orders")[0] == "Healthy"
        status, message = health(lab, "AutoLink", "in")
        assert (status, message.partition(":")[0]) == ("Degraded", "BrokerMissing")

    run(story)
