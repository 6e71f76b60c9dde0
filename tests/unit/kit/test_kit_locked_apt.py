"""What installs packages waits for another program that has locked apt, and says so; not for ever, nor after other
errors. The apt-get here is a script."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster import system
from tests.cluster.command import CommandError
from tests.cluster.paths import REPO

pytestmark = pytest.mark.engine_independent

LOCK = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (unattended-upgr)"
SETUP = """
say() { echo "setup: $*" >&2; }
eval "$(sed -n '/^apt_get() {/,/^}/p' "$1")"
APT_S=$2 APT_AGAIN_S=0
apt_get install -y -qq a
"""
Apt = Callable[[int, str], Path]


@pytest.fixture
def apt_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Apt:
    """Make an apt-get that fails this many times with this error, and notes its calls in the file that is returned."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(system, "APT_AGAIN_S", 0.0)

    def make(failures: int, error: str) -> Path:
        calls = tmp_path / "calls"
        calls.touch()
        program = tmp_path / "apt-get"
        fail = f"[ $(wc -l < {calls}) -gt {failures} ] || {{ echo '{error}' >&2; exit 100; }}"
        program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n{fail}\n')
        program.chmod(0o755)
        return calls

    return make


def install(until: float) -> None:
    system._apt(until, ["a", "b"], "install", "-y", "-qq", "a", "b")


def setup(seconds: int) -> subprocess.CompletedProcess[str]:
    words = ["bash", "-c", SETUP, "setup", str(REPO / "tools/setup.sh"), str(seconds)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)


def test_a_cluster_waits_for_a_locked_apt(apt_get: Apt, capfd: pytest.CaptureFixture[str]) -> None:
    calls = apt_get(2, LOCK)
    install(float("inf"))
    assert calls.read_text() == 3 * "install -y -qq a b\n"
    assert capfd.readouterr().err.count("another program has locked apt: waiting") == 1


def test_a_cluster_does_not_wait_for_ever(apt_get: Apt) -> None:
    apt_get(9, LOCK)
    with pytest.raises(system.Unsuitable, match=r"has locked apt for 300 s .*process 7.* install first: a b"):
        install(float("-inf"))


def test_a_cluster_does_not_wait_after_another_error(apt_get: Apt) -> None:
    calls = apt_get(9, "E: Unable to locate package a")
    with pytest.raises(CommandError, match="Unable to locate package a"):
        install(float("inf"))
    assert calls.read_text().count("\n") == 1


def test_setup_waits_for_a_locked_apt(apt_get: Apt) -> None:
    calls = apt_get(2, LOCK)
    done = setup(300)
    assert done.returncode == 0
    assert done.stderr.count("another program has locked apt") == 1
    assert calls.read_text().count("\n") == 3


def test_setup_does_not_wait_for_ever_nor_after_another_error(apt_get: Apt) -> None:
    apt_get(9, LOCK)
    done = setup(0)
    assert done.returncode == 1
    assert "another program has locked apt for 0 s" in done.stderr
    calls = apt_get(99, "E: Unable to locate package a")
    calls.write_text("")
    done = setup(300)
    assert done.returncode == 1
    assert "Unable to locate package a" in done.stderr
    assert calls.read_text().count("\n") == 1
