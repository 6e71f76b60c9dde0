"""Log files are renamed when they are full, and no line is lost."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from waymesh_router.runtime.log.log import Log
from waymesh_router.runtime.log.rotation import RotatingFile, Rotation, RotationError
from waymesh_router.runtime.log.writer import open_output
from waymesh_schema.entities import ENTITY_TYPES
from waymesh_schema.errors import SchemaError
from waymesh_schema.validate import validate_create

pytestmark = pytest.mark.engine_independent


def texts(path: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in path.parent.iterdir() if file.is_file()}


@pytest.fixture
def log() -> Log:
    return Log(lambda: datetime.now(UTC), open_output)


def test_a_full_file_is_renamed_and_the_oldest_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "log"
    sink = RotatingFile(str(path), Rotation(most_bytes=10, kept=2))
    for number in range(7):
        sink.write("info", f"n{number:03}")
    assert texts(path) == {"log": "n006\n", "log.1": "n004\nn005\n", "log.2": "n002\nn003\n"}
    sink.close()


def test_what_the_file_holds_at_the_start_counts_and_bytes_count_not_characters(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("12345\n", encoding="utf-8")
    sink = RotatingFile(str(path), Rotation(most_bytes=10, kept=9))
    sink.write("info", "üü")
    sink.write("info", "a line longer than a file may be")
    sink.write("info", "z")
    assert texts(path) == {
        "log": "z\n",
        "log.1": "a line longer than a file may be\n",
        "log.2": "üü\n",
        "log.3": "12345\n",
    }
    sink.close()


def test_a_gap_in_the_numbers_saves_older_files(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for name in ("log", "log.1", "log.3"):
        (tmp_path / name).write_text(f"{name}\n", encoding="utf-8")
    sink = RotatingFile(str(path), Rotation(most_bytes=5, kept=3))
    sink.write("info", "new")
    assert texts(path) == {"log": "new\n", "log.1": "log\n", "log.2": "log.1\n", "log.3": "log.3\n"}
    sink.close()


def test_a_file_that_cannot_be_renamed_is_reported_once_and_grows(tmp_path: Path) -> None:
    path = tmp_path / "log"
    (tmp_path / "log.1" / "full").mkdir(parents=True)
    sink = RotatingFile(str(path), Rotation(most_bytes=4, kept=1))
    sink.write("info", "one")
    with pytest.raises(RotationError, match=r"log cannot be rotated and keeps growing: Is a directory"):
        sink.write("info", "two")
    sink.write("info", "three")
    sink.write("info", "four")
    assert texts(path) == {"log": "one\ntwo\nthree\nfour\n"}
    (tmp_path / "log.1" / "full").rmdir()
    (tmp_path / "log.1").rmdir()
    sink.write("info", "five")
    assert texts(path) == {"log": "five\n", "log.1": "one\ntwo\nthree\nfour\n"}
    sink.close()


def test_no_line_is_lost_when_the_new_file_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    sink = RotatingFile(str(path), Rotation(most_bytes=4, kept=2))
    sink.write("info", "one")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", Mock(side_effect=OSError(24, "Too many open files")))
        with pytest.raises(RotationError, match="Too many open files"):
            sink.write("info", "two")
    assert texts(path) == {"log.1": "one\ntwo\n"}
    sink.write("info", "three")
    assert texts(path) == {"log": "three\n", "log.2": "one\ntwo\n"}
    sink.close()


def test_the_failure_is_a_line_of_the_log(tmp_path: Path, log: Log) -> None:
    path = tmp_path / "log"
    (tmp_path / "log.1" / "full").mkdir(parents=True)
    log.configure({"module": "DEFAULT", "outputFile": str(path), "maxMegabytes": 1, "keptFiles": 1})
    for _ in range(64):
        log.write("SERVER", "info", "x" * 16_384)
    assert [line.text[:3] for line in log.recent()].count("xxx") == 64
    (error,) = [line for line in log.recent() if line.level == "error"]
    assert (error.module, error.text) == ("ROUTER", f"{path} cannot be rotated and keeps growing: Is a directory")
    assert path.read_text(encoding="utf-8").count("\n") == 65
    assert log.lost == 0
    log.close()


def test_rotation_begins_and_ends_at_run_time(tmp_path: Path, log: Log) -> None:
    path = tmp_path / "log"
    for megabytes in (None, 1, None):
        log.configure({"module": "DEFAULT", "outputFile": str(path), "maxMegabytes": megabytes})
        for _ in range(65):
            log.write("SERVER", "info", "x" * 16_384)
    lines = {name: text.count("\n") for name, text in texts(path).items()}
    assert sum(lines.values()) == 3 * 65
    assert set(lines) == {"log", "log.1", "log.2"}
    log.close()


def test_a_link_keeps_pointing_to_the_present_file(tmp_path: Path) -> None:
    path, link = tmp_path / "files" / "log", tmp_path / "link"
    path.parent.mkdir()
    link.symlink_to(path)
    sink = RotatingFile(str(link), Rotation(most_bytes=4, kept=1))
    sink.write("info", "one")
    sink.write("info", "two")
    assert link.read_text(encoding="utf-8") == "two\n"
    assert texts(path) == {"log": "two\n", "log.1": "one\n"}
    sink.close()


def test_only_regular_files_are_rotated(log: Log) -> None:
    with pytest.raises(SchemaError, match="/dev/null cannot be opened: maxMegabytes is for regular files only"):
        log.configure({"module": "DEFAULT", "outputFile": os.devnull, "maxMegabytes": 1})
    assert log.settings("DEFAULT")["outputFile"] is None


def test_entities_of_one_file_must_agree(tmp_path: Path, log: Log) -> None:
    path = str(tmp_path / "log")
    log.configure({"module": "DEFAULT", "outputFile": path, "maxMegabytes": 1})
    log.configure({"module": "SERVER", "outputFile": path, "maxMegabytes": 1})
    for other in ({"outputFile": path}, {"outputFile": f"{tmp_path}/./log", "maxMegabytes": 1}):
        with pytest.raises(SchemaError, match="must give it the same name, maxMegabytes and keptFiles"):
            log.configure({"module": "ROUTER", **other})
    log.close()


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"maxMegabytes": 1}, "maxMegabytes: is only for an outputFile of this entity that is a file"),
        ({"maxMegabytes": 1, "outputFile": "stderr"}, "maxMegabytes: is only for an outputFile"),
        ({"maxMegabytes": 1, "outputFile": "syslog"}, "maxMegabytes: is only for an outputFile"),
        ({"maxMegabytes": 0, "outputFile": "/x"}, "maxMegabytes"),
        ({"keptFiles": 1, "outputFile": "/x"}, "keptFiles: needs maxMegabytes"),
    ],
)
def test_settings_that_cannot_act_are_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        validate_create(ENTITY_TYPES["log"], {"module": "DEFAULT", **attributes})
