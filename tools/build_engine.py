"""Compiles the hot modules with Cython, in place beside their sources, and only those that changed.

A module is rebuilt when the hash of its source, of any `.pxd` file, of the compiler settings or of the versions of
Python and Cython differs from the one that was noted when it was last built. Run by `make engine`; `setup.py` uses the
same settings for a wheel.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from setuptools import Extension

REPO = Path(__file__).resolve().parent.parent
ROOT = REPO / "router_image"
BUILD = REPO / "build" / "engine"
NOTES = BUILD / "hashes.json"
PARALLEL = os.cpu_count() or 1
COMPILE_ARGS = ("-O2", "-g0", "-Wno-unused-function", "-Wno-unreachable-code")
DIRECTIVES: dict[str, object] = {
    "language_level": 3,
    "boundscheck": True,  # parsers read hostile bytes; proven loops switch it off where they stand
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "infer_types": True,
    "embedsignature": True,
    "warn.unreachable": False,  # the branches that `cython.compiled` switches off
}


def engine_module() -> ModuleType:
    """`waymesh_amqp/_engine.py` loaded by itself: its package would choose an engine while we are building one."""
    spec = importlib.util.spec_from_file_location("waymesh_engine_choice", ROOT / "waymesh_amqp" / "_engine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ENGINE = engine_module()


def hot_modules() -> list[str]:
    """The hot modules that have a source file; the others are named on stderr."""
    present = [name for name in ENGINE.HOT if ENGINE.source_of(name).exists()]
    absent = [name for name in ENGINE.HOT if name not in present]
    if absent:
        print(f"engine: no source yet, skipped: {' '.join(absent)}", file=sys.stderr)
    return present


def extensions(names: Sequence[str]) -> list[Extension]:
    """Cython's C files for the modules, as setuptools extensions. Paths are relative: run in the repository's root."""
    if not names:
        return []
    from Cython.Build import cythonize
    from setuptools import Extension

    wanted = [
        Extension(
            name,
            [str(ENGINE.source_of(name).relative_to(REPO))],
            extra_compile_args=list(COMPILE_ARGS),
        )
        for name in names
    ]
    made: list[Extension] = cythonize(  # type: ignore[no-untyped-call]
        wanted,
        build_dir=str((BUILD / "c").relative_to(REPO)),
        include_path=[str(ROOT.relative_to(REPO))],
        compiler_directives=DIRECTIVES,
        force=True,  # the hashes below decide what is stale, not file times
        nthreads=PARALLEL if len(wanted) > 1 else 0,
        quiet=True,
    )
    return made


def build_in_place(names: Sequence[str]) -> None:
    """Compiles the modules beside their sources; a compiler's error ends the program."""
    from Cython.Compiler.Errors import CompileError
    from setuptools import Distribution
    from setuptools.errors import BaseError

    try:
        modules = extensions(names)
    except CompileError as error:
        raise SystemExit(f"engine: Cython does not accept {error}: see its messages above") from None
    distribution = Distribution(
        {"name": "waymesh", "package_dir": {"": ROOT.name}, "ext_modules": modules, "script_name": "setup.py"}
    )
    command = distribution.get_command_obj("build_ext")
    command.inplace = True
    command.force = True
    command.parallel = PARALLEL
    command.build_temp = str(BUILD / "o")
    command.ensure_finalized()
    try:
        command.run()
    except BaseError as error:
        raise SystemExit(f"engine: {error}") from None


def hashes(names: Sequence[str]) -> dict[str, str]:
    """For each module the hash of all that its compiled twin is made from."""
    common = hashlib.sha256()
    settings = (sys.version, importlib.metadata.version("cython"), sorted(DIRECTIVES.items()), COMPILE_ARGS)
    common.update(repr(settings).encode())
    for header in sorted(ROOT.rglob("*.pxd")):
        common.update(header.read_bytes())
    found = {}
    for name in names:
        digest = common.copy()
        digest.update(ENGINE.source_of(name).read_bytes())
        found[name] = digest.hexdigest()
    return found


def noted() -> dict[str, str]:
    """The hashes of the last build; empty when there was none."""
    try:
        notes: dict[str, str] = json.loads(NOTES.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return notes


def remove_twins(names: Sequence[str]) -> None:
    """Takes away compiled files, those of other Python versions too: CPython would prefer them to the source."""
    for name in names:
        source = ENGINE.source_of(name)
        for twin in source.parent.glob(f"{source.stem}.*so"):
            twin.unlink()


def main() -> int:
    """Builds what is stale; the exit status is the build's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--force", action="store_true", help="compile every hot module again")
    parser.add_argument("--clean", action="store_true", help="remove the compiled modules and stop")
    options = parser.parse_args()
    os.chdir(REPO)
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if options.clean:
            remove_twins(ENGINE.HOT)
            NOTES.unlink(missing_ok=True)
            return 0
        return build(force=options.force)


def build(force: bool) -> int:
    """Compiles the stale modules and notes their hashes."""
    names = hot_modules()
    current, old = hashes(names), {} if force else noted()
    stale = [n for n in names if current[n] != old.get(n) or ENGINE.twin_of(n) is None]
    if stale:
        print(f"engine: compiling {' '.join(stale)}", file=sys.stderr)
        remove_twins(stale)
        build_in_place(stale)
        NOTES.write_text(json.dumps(current, indent=1) + "\n")
    for name in names:
        twin = ENGINE.twin_of(name)
        if twin is None:
            print(f"engine: {name} was not built", file=sys.stderr)
            return 1
        os.utime(twin)  # up to date by its hash: let its age say so too (see fault_of)
    return 0


if __name__ == "__main__":
    sys.exit(main())
