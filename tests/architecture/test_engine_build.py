"""tools/build_engine.py on a small source tree: builds what changed, only that, and reports errors clearly."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
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


USER = '''"""A hot module that takes a declaration from another one."""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.waymesh_amqp.tiny import Pair


def total(pair: Pair) -> int:
    return pair.left + pair.right
'''

PAIR = """

class Pair:
    def __init__(self, left: int, right: int) -> None:
        self.left = left
        self.right = right
"""

HEADER = """
cdef class Pair:
    cdef public int left
    cdef public int right
"""


def lay(root: Path) -> None:
    """A checkout with two hot modules that exist, one the user of the other, and one that does not."""
    package = root / "router_image" / "waymesh_amqp"
    package.mkdir(parents=True)
    (root / "tools").mkdir()
    (root / "setup.py").touch()
    shutil.copy(REPO / "tools" / "build_engine.py", root / "tools")
    for name in ("__init__.py", "_cython_stub.py", "_engine.py"):
        shutil.copy(REPO / "router_image" / "waymesh_amqp" / name, package)
    choice = package / "_engine.py"
    hot = 'HOT: Final[tuple[str, ...]] = ("waymesh_amqp.tiny", "waymesh_amqp.user", "waymesh_amqp.later")\n'
    choice.write_text(re.sub(r"^HOT: .*?^\)\n", hot, choice.read_text(), flags=re.MULTILINE | re.DOTALL))
    (package / "tiny.py").write_text(SOURCE + PAIR)
    (package / "tiny.pxd").write_text(HEADER)
    (package / "user.py").write_text(USER)


def build(tree: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "tools/build_engine.py", *options], cwd=tree, capture_output=True, text=True, check=False
    )


def cache_of(root: Path) -> Path:
    """The cache that the first build fills."""
    return root.with_name(f"{root.name}-cache")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """That checkout after its first build, and what the build said."""
    root = tmp_path_factory.mktemp("built")
    lay(root)
    return root, build(root, "--cache", str(cache_of(root)))


@pytest.fixture
def tree(built: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path) -> Path:
    """A built checkout of the test's own."""
    return Path(shutil.copytree(built[0], tmp_path / "tree"))


def use(tree: Path, octets: str) -> str:
    code = "import waymesh_amqp, waymesh_amqp.tiny as t, waymesh_amqp.user as u\n"
    code += f"print(waymesh_amqp.engine(), t.third({octets}), u.total(t.Pair(3, 4)))"
    environ = {**os.environ, "PYTHONPATH": str(tree / "router_image"), "WAYMESH_ENGINE": "compiled"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip().splitlines()[-1]


def compiled(done: subprocess.CompletedProcess[str]) -> set[str]:
    """The last words of the names of the modules that a build says it compiles."""
    for line in done.stderr.splitlines():
        if line.startswith("engine: compiling "):
            return {name.rpartition(".")[2] for name in line.split()[2:]}
    return set()


def test_the_first_build_builds_all(built: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    root, first = built
    assert first.returncode == 0, first.stderr
    assert compiled(first) == {"_cyutility", "tiny", "user"}
    assert "no source yet, skipped: waymesh_amqp.later" in first.stderr
    assert use(root, "b'abc'") == "compiled 99 7"
    assert use(root, "b'ab'").startswith("IndexError"), "input must never be read past its end"


def test_builds_what_changed_and_only_that(tree: Path) -> None:
    source = tree / "router_image" / "waymesh_amqp" / "tiny.py"
    source.touch()
    assert use(tree, "b'abc'").startswith("ImportError"), "a twin older than its source is stale"
    assert not compiled(build(tree)), "the text is the same"
    assert use(tree, "b'abc'") == "compiled 99 7"

    source.write_text(source.read_text().replace("b[2]", "b[2] + 1"))
    assert compiled(build(tree)) == {"tiny"}, "nobody takes anything from a source"
    assert use(tree, "b'abc'") == "compiled 100 7"

    source.with_suffix(".pxd").write_text("cdef class Pair:\n    cdef public int right\n    cdef public int left\n")
    assert compiled(build(tree)) == {"tiny", "user"}
    assert use(tree, "b'abc'") == "compiled 100 7"


def test_the_compiled_file_of_a_renamed_module_is_removed(tree: Path) -> None:
    package = tree / "router_image" / "waymesh_amqp"
    (compiled_user,) = package.glob("user.*so")
    former = package / "room" / compiled_user.name.replace("user", "former")
    former.parent.mkdir()
    shutil.copy(compiled_user, former)
    assert build(tree).returncode == 0
    assert not former.exists(), "it could still be imported"
    assert use(tree, "b'abc'") == "compiled 99 7"


def test_a_module_that_does_not_compile_is_named_and_leaves_no_twin(tree: Path) -> None:
    package = tree / "router_image" / "waymesh_amqp"
    twin, shared = next(package.glob("tiny.*so")).stat(), next(package.glob("_cyutility.*so")).stat()
    (package / "user.py").write_text(USER + "\nclass Broken(:\n")
    done = build(tree)
    assert done.returncode == 1
    assert "engine: Cython does not accept" in done.stderr
    assert not list(package.glob("user*.so"))
    assert next(package.glob("tiny.*so")).stat().st_ino == twin.st_ino, "what is up to date stays in place"
    assert next(package.glob("_cyutility.*so")).stat().st_ino == shared.st_ino

    (package / "user.py").write_text(USER)
    assert compiled(build(tree)) == {"user"}
    assert use(tree, "b'abc'") == "compiled 99 7"


def test_a_module_that_is_edited_while_it_compiles_is_not_taken_for_what_it_was(tree: Path) -> None:
    package = tree / "router_image" / "waymesh_amqp"
    (package / "tiny.pxd").write_text(HEADER + "    cdef public int third\n")
    edit = "import build_engine as b, pathlib\nhonest = b.compile_all\n"
    edit += "def late(names):\n    made = honest(names)\n"
    edit += "    pathlib.Path('router_image/waymesh_amqp/user.py').open('a').write('# edited\\n')\n    return made\n"
    edit += "b.compile_all = late\nraise SystemExit(b.main())\n"
    environ = {**os.environ, "PYTHONPATH": "tools"}
    done = subprocess.run(
        [sys.executable, "-c", edit], cwd=tree, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "changed while compiling, build again: waymesh_amqp.user" in done.stderr
    assert list(package.glob("tiny.*so"))
    assert not list(package.glob("user.*so"))
    assert compiled(build(tree)) == {"user"}


def test_another_checkout_finds_what_was_compiled_in_the_cache(
    built: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    cache = cache_of(built[0])
    lay(tmp_path)
    done = build(tmp_path, "--cache", str(cache))
    assert done.returncode == 0, done.stderr
    assert "engine: in the cache: 3 of 3 modules" in done.stderr
    assert not compiled(done)
    assert use(tmp_path, "b'abc'") == "compiled 99 7"

    unused = next(cache.iterdir())
    long_ago = time.time() - 31 * 24 * 3600
    os.utime(unused, (long_ago, long_ago))
    source = tmp_path / "router_image" / "waymesh_amqp" / "tiny.py"
    source.write_text(source.read_text().replace("b[2]", "b[2] + 1"))
    assert compiled(build(tmp_path, "--cache", str(cache))) == {"tiny"}
    assert len(list(cache.iterdir())) == 3
    assert not unused.exists()


def test_a_cache_that_cannot_be_written_fails_no_build(tree: Path, tmp_path: Path) -> None:
    no_folder = tmp_path / "file"
    no_folder.touch()
    source = tree / "router_image" / "waymesh_amqp" / "tiny.py"
    source.write_text(source.read_text().replace("b[2]", "b[2] + 1"))
    done = build(tree, "--cache", str(no_folder))
    assert (done.returncode, compiled(done)) == (0, {"tiny"}), done.stderr
    assert use(tree, "b'abc'") == "compiled 100 7"
