"""`make quickstart` replaces its file by what helm has made, and by nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine_independent

ROOT = Path(__file__).parents[2]


def make(folder: Path) -> int:
    """Run it in a folder with the Makefile alone, with the helm that the folder may have and no other."""
    tools = folder / "bin"
    path = os.pathsep.join([str(tools), str(tools / "others")])
    words = [str(shutil.which("make")), "-s", "quickstart"]
    ran = subprocess.run(words, cwd=folder, env={"PATH": path}, capture_output=True, timeout=60, check=False)
    return ran.returncode


def test_without_helm_or_after_its_error_the_file_stays(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    rendered = tmp_path / "examples/quickstart/analytics.yaml"
    helm = tmp_path / "bin/helm"
    for folder in (rendered.parent, helm.parent / "others"):
        folder.mkdir(parents=True)
    for tool in ("sh", "bash", "mkdir", "mv"):
        (helm.parent / "others" / tool).symlink_to(str(shutil.which(tool)))
    rendered.write_text("former\n")
    assert make(tmp_path) != 0
    assert rendered.read_text() == "former\n"
    for script, code, text in (("echo half; exit 1", False, "former\n"), ("echo whole", True, "whole\n")):
        helm.write_text(f"#!/bin/sh\n{script}\n")
        helm.chmod(0o755)
        assert (make(tmp_path) == 0) is code
        assert rendered.read_text() == text
