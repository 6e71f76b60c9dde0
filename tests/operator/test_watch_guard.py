"""The operator exits with a reason if kopf's watches end or cannot be found."""

from __future__ import annotations

import asyncio
import importlib.metadata
import tomllib
from pathlib import Path
from typing import Any

import kopf
import pytest
from kopf._cogs.aiokits import aiotoggles
from kopf._cogs.structs.references import NamespaceName, Resource
from kopf._core.reactor import orchestration, queueing
from packaging.requirements import Requirement

from waymesh_operator.errors import WaymeshError
from waymesh_operator.places.kubernetes.watches import START_S, WATCH_TASK, WatchGuard

pytestmark = pytest.mark.engine_independent

ROOT = Path(__file__).parents[2]


def test_watches_may_take_a_while_to_begin_and_then_never_end() -> None:
    guard = WatchGuard(2, began=100.0)
    guard.check(["kopf", "watcher for a"], 100.0 + START_S)
    for later in range(3):
        guard.check(["watcher for a", "kopf", "watcher for b", "watcher for c"], 1000.0 + later)
    with pytest.raises(WaymeshError, match="a watch has ended"):
        guard.check(["watcher for a"], 1010.0)


@pytest.mark.parametrize("names", [[], ["watch of routers", "watch of addresses"], ["watcher for a"]])
def test_watches_that_cannot_be_found_end_the_operator(names: list[str]) -> None:
    guard = WatchGuard(2, began=100.0)
    guard.check(names, 100.0)
    with pytest.raises(WaymeshError, match=f"{len([n for n in names if WATCH_TASK in n])} of 2 watches of kopf run"):
        guard.check(names, 100.1 + START_S)


def test_the_installed_kopf_names_its_watching_tasks_as_we_count_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async def watch(**_: Any) -> None:
        await asyncio.Event().wait()

    async def names_of_tasks() -> list[str]:
        toggles = aiotoggles.ToggleSet(any)
        ensemble = orchestration.Ensemble(toggles, toggles, await toggles.make_toggle())
        await orchestration.spawn_missing_watchers(
            processor=watch,
            settings=kopf.OperatorSettings(),
            indexed_resources=[],
            watched_resources=[
                Resource("waymesh.io", "v1alpha1", plural, namespaced=True) for plural in ("routers", "addresses")
            ],
            watched_namespaces=[NamespaceName("one"), NamespaceName("two")],
            ensemble=ensemble,
        )
        names = [task.get_name() for task in asyncio.all_tasks()]
        for task in ensemble.watcher_tasks.values():
            task.cancel()
        await asyncio.gather(*ensemble.watcher_tasks.values(), return_exceptions=True)
        return names

    monkeypatch.setattr(queueing, "watcher", watch)
    assert sum(name.startswith(WATCH_TASK) for name in asyncio.run(names_of_tasks())) == 4


def test_kopf_is_held_to_the_range_that_was_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lines = [line for extra in project["project"]["optional-dependencies"].values() for line in extra]
    (kopf_line,) = [Requirement(line) for line in lines if Requirement(line).name == "kopf"]
    assert kopf_line.specifier.contains(importlib.metadata.version("kopf"))
    assert not kopf_line.specifier.contains("1.46.0")
    assert not kopf_line.specifier.contains("2.0")
