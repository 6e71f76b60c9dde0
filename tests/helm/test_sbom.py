"""The bill of materials names what is installed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.architecture.tree import REPO

pytestmark = pytest.mark.engine_independent


def canonical(name: str) -> str:
    """A package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def bill(out: Path) -> dict[str, object]:
    """What the images' step writes about the packages of this environment."""
    argv = [str(Path(sys.executable).with_name("cyclonedx-py")), "environment", "-S", "--pyproject", "pyproject.toml"]
    environment = {"PYTHONPATH": sysconfig.get_path("purelib")}
    subprocess.run([*argv, "--no-validate", "-o", str(out), sys.executable], cwd=REPO, env=environment, check=True)
    made: dict[str, object] = json.loads(out.read_text())
    return made


def test_every_pinned_package_has_version_and_licence(tmp_path: Path) -> None:
    lines = (REPO / "constraints.txt").read_text().splitlines()
    pinned = {canonical(name): version for name, _, version in (line.partition("==") for line in lines) if version}
    # Those of analytics are there after `make analytics` only.
    installed = {canonical(found.metadata["Name"]) for found in distributions()}
    wanted = {name: version for name, version in pinned.items() if name in installed}
    assert {"kopf", "kubernetes", "python-qpid-proton", "isal"} <= set(wanted)
    found = bill(tmp_path / "bill.json")
    components = {canonical(part["name"]): part for part in found["components"]}  # type: ignore[attr-defined]
    assert {name: components[name]["version"] for name in wanted} == wanted
    assert not [name for name in wanted if not components[name].get("licenses")]
