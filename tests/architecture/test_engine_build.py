"""tools/build_engine.py on a small tree of its own: builds what changed, only that, and says clearly what it cannot."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import REPO

pytestmark = pytest.mark.engine_independent

SOURCE = '''"""A hot module."""

from __future__ import annotations

import cython


def third(b: cython.const[cython.uchar][::1]) -> int:
    return b[2]
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with one hot module that exists and one that does not."""
    package = tmp_path / "router_image" / "waymesh_amqp"
    package.mkdir(parents=True)
    (tmp_path / "tools").mkdir()
    (tmp_path / "setup.py").touch()
    shutil.copy(REPO / "tools" / "build_engine.py", tmp_path / "tools")
    for name in ("__init__.py", "_cython_stub.py", "_engine.py"):
        shutil.copy(REPO / "router_image" / "waymesh_amqp" / name, package)
    choice = package / "_engine.py"
    hot = 'HOT: Final[tuple[str, ...]] = ("waymesh_amqp.tiny", "waymesh_amqp.later")\n'
    choice.write_text(re.sub(r"^HOT: .*?^\)\n", hot, choice.read_text(), flags=re.MULTILINE | re.DOTALL))
    (package / "tiny.py").write_text(SOURCE)
    return tmp_path


def build(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "tools/build_engine.py"], cwd=tree, capture_output=True, text=True, check=False
    )


def use(tree: Path, octets: str) -> str:
    code = f"import waymesh_amqp, waymesh_amqp.tiny as t; print(waymesh_amqp.engine(), t.third({octets}))"
    environ = {**os.environ, "PYTHONPATH": str(tree / "router_image"), "WAYMESH_ENGINE": "compiled"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip().splitlines()[-1]


def test_builds_what_changed_and_only_that(tree: Path) -> None:
    first = build(tree)
    assert first.returncode == 0, first.stderr
    assert re.search(r"compiling .*\bwaymesh_amqp\.tiny\b", first.stderr)
    assert "no source yet, skipped: waymesh_amqp.later" in first.stderr
    assert use(tree, "b'abc'") == "compiled 99"
    assert use(tree, "b'ab'").startswith("IndexError"), "input must never be read past its end"

    source = tree / "router_image" / "waymesh_amqp" / "tiny.py"
    source.touch()
    assert use(tree, "b'abc'").startswith("ImportError"), "a twin older than its source is stale"
    assert "compiling" not in build(tree).stderr, "the text is the same"
    assert use(tree, "b'abc'") == "compiled 99"

    source.write_text(SOURCE.replace("b[2]", "b[2] + 1"))
    assert "compiling" in build(tree).stderr
    assert use(tree, "b'abc'") == "compiled 100"


def test_a_module_that_does_not_compile_is_named_and_leaves_no_twin(tree: Path) -> None:
    source = tree / "router_image" / "waymesh_amqp" / "tiny.py"
    source.write_text(SOURCE + "\nclass Broken(:\n")
    done = build(tree)
    assert done.returncode == 1
    assert "engine: Cython does not accept" in done.stderr
    assert not list(source.parent.glob("tiny*.so"))
