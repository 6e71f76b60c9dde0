"""An output folder that cannot be written, and memory for fewer tasks than cores, are said before Spark starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from waymesh_analytics import AnalyticsError, Options, launch
from waymesh_analytics.cli.main import main
from waymesh_analytics.out import require_writable
from waymesh_analytics.spark import cores

pytestmark = pytest.mark.engine_independent
AS_NOBODY = """
import os, sys, tempfile
from waymesh_analytics.errors import AnalyticsError
from waymesh_analytics.out import require_writable
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    require_writable(sys.argv[1])
except AnalyticsError as error:
    sys.exit(str(error))
"""
MOUNTED = """
mount -t tmpfs -o size=64k waymesh "$1" && head -c 60000 /dev/zero > "$1/filler" && mount -o remount,"$2" "$1" &&
exec "$3" -c 'import sys
from waymesh_analytics.cli.main import main
sys.exit(main(["none", "--out", sys.argv[1]]))' "$1"
"""


@pytest.fixture
def unstarted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(launch, "_open", fail)


@pytest.mark.parametrize("place", ["file", "file/below/it", "link"])
def test_a_file_in_the_place_of_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unstarted: None, place: str
) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "link").symlink_to("nowhere")
    assert main(["none", "--out", str(tmp_path / place)]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert said.endswith(f"{tmp_path / place.partition('/')[0]} is not a folder")
    assert (tmp_path / "file").read_text() == "precious"


def test_a_folder_without_permission(tmp_path: Path) -> None:
    place = tmp_path / "closed"
    place.mkdir(mode=0o500)
    command = [sys.executable, "-c", AS_NOBODY, str(place / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("Permission denied")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("option", "reason"), [("rw", "No space left on device"), ("ro", "Read-only file system")])
def test_a_full_or_read_only_file_system(tmp_path: Path, option: str, reason: str) -> None:
    apart = ["unshare", "--map-root-user", "--mount", "--"]
    command = [*apart, "sh", "-c", MOUNTED, "sh", str(tmp_path), option, sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr.splitlines()) == (
        1, [f"waymesh analyze: --out {tmp_path}: cannot write to {tmp_path}: {reason}"],
    )  # fmt: skip


def test_nothing_is_left_by_the_question(tmp_path: Path) -> None:
    require_writable(str(tmp_path / "a/b"))
    require_writable(str(tmp_path))
    require_writable("s3a://bucket/out")
    assert os.listdir(tmp_path) == []


def test_memory_bounds_the_tasks_of_all_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def machine(gib: float, limit: str = "max", quota: str = "max 100000") -> None:
        (tmp_path / "meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable: {int(gib * (1 << 20))} kB\n")
        (tmp_path / "memory.max").write_text(limit)
        (tmp_path / "cpu.max").write_text(quota)

    monkeypatch.setattr(cores, "MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(cores, "LIMITS", (tmp_path / "memory.max", tmp_path / "none"))
    monkeypatch.setattr(cores, "QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(64))
    machine(33.5)
    assert cores.bounded_master("local[*]") == ("local[*]", "")
    machine(8)
    master, said = cores.bounded_master("local[*]")
    assert master == "local[13]"
    assert said.startswith("13 of 64 cores are used: 8,192 MiB")
    assert cores.bounded_master("local[64]") == ("local[64]", "")
    assert cores.bounded_master("") == ("", "")
    machine(64, limit=str(2 << 30))
    assert cores.bounded_master("local[*]")[0] == "local[1]"
    machine(0.5)
    assert cores.bounded_master("local[*]")[0] == "local[1]"
    machine(4, quota="250000 100000")
    assert cores.bounded_master("local[*]") == ("local[*]", "")
    (tmp_path / "meminfo").write_text("odd\n")
    assert cores.bounded_master("local[*]") == ("local[*]", "")


@pytest.mark.spark
def test_the_bound_is_said_and_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def opened(options: Options) -> None:
        raise AnalyticsError(options.master)

    monkeypatch.setattr(launch, "bounded_master", lambda master: ("local[3]", "3 of 8 cores are used"))
    monkeypatch.setattr(launch, "_open", opened)
    said: list[str] = []
    with pytest.raises(AnalyticsError, match=r"local\[3\]"):
        launch.run(Options("none", str(tmp_path)), said.append)
    assert said == ["starting Spark on local[3]", "3 of 8 cores are used"]
