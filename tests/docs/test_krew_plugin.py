"""The kubectl plugin for krew: the archive, its manifest, and what its script does."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.engine_independent

ROOT = Path(__file__).parents[2]
WHEEL = "waymesh-1.2.3-py3-none-any.whl"
PYTHON = """#!/bin/sh
echo "$@" >> "$LOG"
case "$1 $2" in
"-m venv")
    mkdir -p "$4/bin"
    cp "$0" "$4/bin/python"
    printf '#!/bin/sh\\nfor word; do echo "<$word>"; done\\n' > "$4/bin/kubectl-waymesh"
    chmod +x "$4/bin/kubectl-waymesh" ;;
"-m pip") exit "${PIP:-0}" ;;
esac
"""
"""Stands for a Python that makes environments; the real one would get packages from an index."""


def made(folder: Path, *words: str) -> tuple[Path, dict[str, object]]:
    """The archive and the manifest of a wheel."""
    wheel = folder / WHEEL
    wheel.write_bytes(b"wheel")
    command = [sys.executable, str(ROOT / "tools/krew_plugin.py"), str(wheel), "--out", str(folder), *words]
    archive, manifest = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return Path(archive), yaml.safe_load(Path(manifest).read_text())


def test_the_manifest_has_the_digest_of_the_archive(tmp_path: Path) -> None:
    archive, manifest = made(tmp_path, "--url", "https://example.org/plugin.tar.gz")
    (platform,) = manifest["spec"]["platforms"]  # type: ignore[index]
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert platform["uri"] == "https://example.org/plugin.tar.gz"
    with tarfile.open(archive) as tar:
        assert {member.name: member.mode for member in tar.getmembers()} == {
            platform["bin"]: 0o755,
            WHEEL: 0o644,
            "LICENSE": 0o644,
        }
    first = archive.read_bytes()
    assert made(tmp_path, "--url", "https://example.org/plugin.tar.gz")[0].read_bytes() == first


class Plugin:
    """The plugin as krew installs it: unpacked, with a link to it in the PATH; `python` is the Python that it finds."""

    def __init__(self, folder: Path) -> None:
        self._log, self._path = folder / "log", folder / "path"
        self._path.mkdir()
        for tool in ("sh", "dirname", "basename", "readlink", "mkdir", "touch", "cp", "chmod"):
            (self._path / tool).symlink_to(str(shutil.which(tool)))
        with tarfile.open(made(folder)[0]) as tar:
            tar.extractall(folder / "store", filter="data")
        (self._path / "kubectl-waymesh").symlink_to("../store/kubectl-waymesh")
        self._environment = {"PATH": str(self._path), "HOME": str(folder / "home"), "LOG": str(self._log)}
        self.python = self._path / "python3"

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Use it."""
        command = [str(self._path / "kubectl-waymesh"), *words]
        return subprocess.run(
            command, env=self._environment | environment, capture_output=True, text=True, timeout=60, check=False
        )

    def installations(self) -> int:
        """How often it has asked for packages."""
        return self._log.read_text().count("-m pip") if self._log.exists() else 0


def test_the_first_use_installs_it_once(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    plugin.python.write_text(PYTHON)
    plugin.python.chmod(0o755)
    failed = plugin.run("status", PIP="1")
    assert failed.returncode == 1
    assert "could not be installed" in failed.stderr
    for _ in range(2):
        ran = plugin.run("stat", "-a b")
        assert (ran.returncode, ran.stdout) == (0, "<stat>\n<-a b>\n")
    assert plugin.installations() == 2


def test_without_python_it_says_what_it_needs(tmp_path: Path) -> None:
    ran = Plugin(tmp_path).run("status")
    assert ran.returncode == 1
    assert ran.stderr == (
        "kubectl waymesh: it needs Python 3.11 or later with venv; set PYTHON to it if it is not in the PATH\n"
    )
