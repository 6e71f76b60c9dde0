"""The command line: what is printed where, and the exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine_independent

ROOT = Path(__file__).parents[3]
EXAMPLE = str(ROOT / "examples" / "mesh.yaml")


def waymesh(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from waymesh_operator.cli.main import main; sys.argv[0] = 'waymesh'; main()"
    path = os.pathsep.join([str(ROOT / "router_image"), str(ROOT / "operator")])
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "120", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_plan_for_nothing_yet(tmp_path: Path) -> None:
    done = waymesh("plan", "-f", EXAMPLE, "--state-dir", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "create router mesh-2" in done.stdout
    assert "connects to mesh-0, mesh-1" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_plan_as_json_and_with_a_telling_exit_code(tmp_path: Path) -> None:
    done = waymesh("plan", "-f", EXAMPLE, "--state-dir", str(tmp_path), "-o", "json", "--detailed-exitcode")
    assert done.returncode == 2
    rows = json.loads(done.stdout)
    assert [(row["mesh"], row["action"], row["router"]) for row in rows] == [
        ("mesh", "CreateRouter", f"mesh-{k}") for k in range(3)
    ]


def test_errors_in_manifests_stand_on_stderr_one_a_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(
        "apiVersion: waymesh.io/v1alpha1\nkind: Router\nmetadata: {name: mesh}\nspec:\n  size: 99\n  tpology: Full\n"
    )
    for command in ("plan", "up"):
        done = waymesh(command, "-f", str(file), "--state-dir", str(tmp_path / "state"))
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.splitlines() == [
            f"{file}:5: Router/mesh spec.size: must be between 0 and 64 (got 99)",
            f"{file}:6: Router/mesh spec.tpology: unknown field; did you mean topology?",
        ]


def test_help_and_wrong_use() -> None:
    done = waymesh("--help")
    assert done.returncode == 0
    assert all(command in done.stdout for command in ("up", "plan", "stat", "manage", "demo"))
    assert waymesh("nonsense").returncode == 2
    assert waymesh("plan").returncode == 2
    assert waymesh("plan", "-f", EXAMPLE, "-o", "xml").returncode == 2


@pytest.mark.parametrize("tool", ["stat", "manage"])
def test_tools_get_their_arguments_unchanged(tool: str) -> None:
    done = waymesh(tool, "--help")
    assert done.returncode == 0
    assert f"usage: waymesh {tool}" in done.stdout


def test_the_commands_start_without_what_they_do_not_need() -> None:
    code = (
        "import sys; from waymesh_operator.cli.main import app;"
        "print([m for m in ('proton', 'cel', 'yaml', 'waymesh_operator.cluster.plan') if m in sys.modules])"
    )
    path = os.pathsep.join([str(ROOT / "router_image"), str(ROOT / "operator")])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
