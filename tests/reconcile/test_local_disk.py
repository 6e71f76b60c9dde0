"""Local mode when its state folder cannot be written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from .local_fakes import Stage, manifest

pytestmark = pytest.mark.engine_independent


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path, manifest(2))
    made.settle()
    yield made
    made.supervisor.close()


def folder(stage: Stage) -> Path:
    return stage.folder / "state" / "mesh"


def take_away(stage: Stage) -> Path:
    """Without the folder, every write fails, also for root."""
    return folder(stage).rename(stage.folder / "away")


def complaints(stage: Stage) -> list[str]:
    return [text for text in stage.network.said if text.endswith("No such file or directory")]


def test_a_router_is_added_when_its_state_can_be_written(stage: Stage) -> None:
    away = take_away(stage)
    stage.write(manifest(3))
    stage.step(30)
    assert complaints(stage) == [f"cannot write to {folder(stage)}: No such file or directory"]
    assert stage.ids() == ["mesh-0", "mesh-1"]
    away.rename(folder(stage))
    stage.settle()
    assert stage.ids() == ["mesh-0", "mesh-1", "mesh-2"]
    assert json.loads((folder(stage) / "state.json").read_text())["pids"] == stage.pids()


def test_the_next_error_is_reported_again(stage: Stage) -> None:
    for size in (3, 4):
        away = take_away(stage)
        stage.write(manifest(size))
        stage.step(3)
        away.rename(folder(stage))
        stage.settle()
    assert len(complaints(stage)) == 2


def test_a_start_configuration_that_cannot_be_written_is_written_later(stage: Stage) -> None:
    away = take_away(stage)
    stage.write(manifest(2, "news"))
    stage.step(3)
    assert any("save the configuration for its next start" in text for text in stage.network.said)
    away.rename(folder(stage))
    stage.step(3, seconds=2)
    stage.settle()
    assert all("news" in json.dumps(stage.seed(name)) for name in stage.ids())


def test_routers_are_stopped_without_the_folder(stage: Stage) -> None:
    take_away(stage)
    stage.supervisor.leave()
    stage.step(10)
    assert stage.ids() == []
    assert stage.supervisor.gone
