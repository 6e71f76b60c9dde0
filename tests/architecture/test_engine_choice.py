"""WAYMESH_ENGINE: selects the form of hot modules; behaviour if that form is missing."""

from __future__ import annotations

import ast
import importlib.machinery
import os
import subprocess
import sys
from pathlib import Path

import pytest

import waymesh_amqp
from waymesh_amqp import _cython_stub, _engine

SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
HOT = ("pack.one", "pack.two", "pack.later")


def lay(root: Path, *, twins: tuple[str, ...] = ("one", "two"), checkout: bool = True) -> Path:
    """A folder of packages with two hot modules and the compiled twins that are asked for, newer than their sources."""
    folder = root / "packages" / "pack"
    folder.mkdir(parents=True)
    if checkout:
        (root / "setup.py").touch()
    for name in ("one", "two"):
        (folder / f"{name}.py").touch()
        os.utime(folder / f"{name}.py", (1000, 1000))
    for name in twins:
        (folder / f"{name}{SUFFIX}").touch()
        os.utime(folder / f"{name}{SUFFIX}", (2000, 2000))
    return root / "packages"


def choose(root: Path, wish: str | None) -> str:
    return _engine.choose({} if wish is None else {"WAYMESH_ENGINE": wish}, HOT, root)


@pytest.mark.parametrize(
    ("wish", "twins", "expected"),
    [
        (None, ("one", "two"), "compiled"),
        (None, ("one",), "interpreted"),
        (None, (), "interpreted"),
        ("", ("one", "two"), "compiled"),
        ("interpreted", ("one", "two"), "interpreted"),
        ("interpreted", (), "interpreted"),
        ("compiled", ("one", "two"), "compiled"),
    ],
)
def test_choice(tmp_path: Path, wish: str | None, twins: tuple[str, ...], expected: str) -> None:
    assert choose(lay(tmp_path, twins=twins), wish) == expected


def test_compiled_wished_and_missing_names_the_module(tmp_path: Path) -> None:
    with pytest.raises(ImportError, match=r"WAYMESH_ENGINE=compiled: pack\.two has no compiled twin .*make engine"):
        choose(lay(tmp_path, twins=("one",)), "compiled")


@pytest.mark.parametrize("changed", ["two.py", "two.pxd"])
def test_stale_twin_is_not_used_in_a_checkout(tmp_path: Path, changed: str) -> None:
    root = lay(tmp_path)
    (root / "pack" / changed).touch()
    assert choose(root, None) == "interpreted"
    with pytest.raises(ImportError, match=r"pack\.two was changed after it was compiled"):
        choose(root, "compiled")


def test_file_times_mean_nothing_in_an_installed_wheel(tmp_path: Path) -> None:
    root = lay(tmp_path, checkout=False)
    (root / "pack" / "two.py").touch()
    assert choose(root, "compiled") == "compiled"


def test_unknown_wish(tmp_path: Path) -> None:
    with pytest.raises(ImportError, match="WAYMESH_ENGINE=fast: neither compiled nor interpreted"):
        choose(lay(tmp_path), "fast")


def test_nothing_hot_is_interpreted(tmp_path: Path) -> None:
    assert choose(tmp_path, None) == "interpreted"


def test_source_finder_takes_the_source_of_hot_modules_only(tmp_path: Path) -> None:
    folder = lay(tmp_path) / "pack"
    (folder / "cold.py").touch()
    finder = _engine.SourceFinder(HOT)
    spec = finder.find_spec("pack.one", [str(folder)])
    assert spec is not None
    assert spec.origin == str(folder / "one.py")
    assert finder.find_spec("pack.cold", [str(folder)]) is None
    assert finder.find_spec("pack.later", [str(folder)]) is None


def run_python(code: str, **environ: str) -> str:
    """The last line that a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environ}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip().splitlines()[-1]


FORMS = """
import importlib, sys
import waymesh_router, waymesh_amqp
from waymesh_amqp._engine import HOT, source_of
modules = [importlib.import_module(name) for name in HOT if source_of(name).exists()]
print(waymesh_amqp.engine(), sorted({m.__file__.endswith('.py') for m in modules}))
"""


def test_interpreted_loads_every_hot_module_from_source() -> None:
    assert run_python(FORMS, WAYMESH_ENGINE="interpreted") == "interpreted [True]"


def test_this_run_loads_what_it_says() -> None:
    expected = {"compiled": "compiled [False]", "interpreted": "interpreted [True]"}[waymesh_amqp.engine()]
    assert run_python(FORMS) == expected


NO_CYTHON = """
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == 'cython' else real(name, package)
"""


def test_hot_modules_run_where_cython_is_not_installed() -> None:
    code = NO_CYTHON + FORMS + "print(sys.modules['cython'].__name__)\n"
    assert run_python(code, WAYMESH_ENGINE="interpreted") == "waymesh_amqp._cython_stub"


def test_stub_knows_every_name_the_hot_modules_use() -> None:
    unknown = set()
    for name in _engine.HOT:
        source = _engine.source_of(name)
        for node in ast.walk(ast.parse(source.read_text())) if source.exists() else ():
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cython":
                unknown |= {node.attr} - set(dir(_cython_stub))
    assert not unknown


def test_stub_means_nothing_at_run_time() -> None:
    stub = vars(_cython_stub)

    def twice(x: int) -> int:
        return 2 * x

    decorators = (stub["cfunc"], stub["exceptval"](-1, check=True), stub["boundscheck"](False), stub["nogil"])
    assert {decorate(twice) for decorate in decorators} == {twice}
    assert stub["declare"](stub["int"], 250) == 250
    assert stub["declare"](stub["const"][stub["uchar"]][::1], b"ab") == b"ab"
    assert stub["cast"](stub["uint"], 7) == 7
    assert not stub["compiled"]
    assert (stub["cdiv"](-7, 2), stub["cmod"](-7, 2)) == (-3, -1)
    with stub["nogil"]:
        assert stub["uint"](3.0) == 3
