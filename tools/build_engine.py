"""Compiles the hot modules with Cython, in place beside their sources, and only those that changed.

A module is rebuilt when the hash of its source, of the `.pxd` files it takes declarations from, of the compiler
settings or of the versions of Python and Cython differs from the one recorded at its last build. Compiled files are
moved into place together, after all compilers have ended, and each atomically: until then, other processes find the
previous engine. Run by `make engine`; `setup.py` uses the same settings for a wheel. With `--cache`, compiled files are
also kept in a folder outside the checkout, by hash, and found there by other checkouts.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
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
KEPT_S = 30 * 24 * 3600
"""For so long, a compiled file stays in the cache after its last use."""
SHARED = "waymesh_amqp._cyutility"
"""Cython's utility code for memory views etc., shared by all modules: it is larger than the C code of most of them."""

COMPILE_ARGS = ("-g0", "-w")  # warnings about generated C are not useful
COLD = (
    SHARED,
    "waymesh_amqp.connection_frames",
    "waymesh_amqp.handler",
    "waymesh_amqp.link_frames",
    "waymesh_amqp.preamble",
    "waymesh_amqp.time_outs",
)
"""Modules without a part in the transfer of a message: -O1 for them, which takes half the time that -O3 takes."""
RECORDS = ("waymesh_amqp.delivery", "waymesh_router.core.model")
"""Modules with classes of which each message makes an object. For its memory of 88 to 400 octets, gcc would fill in
zeros by an instruction that takes longer to start (12 ns for 240 octets) than a call of the C library (2.5 ns)."""

DIRECTIVES: dict[str, object] = {
    "language_level": 3,
    "boundscheck": True,  # parsers read untrusted bytes; proven loops switch it off locally
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "infer_types": True,
    "auto_pickle": False,  # connections are never pickled, and the code for it is a fifth of a class with many fields
    "warn.unreachable": False,  # the branches that `cython.compiled` switches off
}


def engine_module() -> ModuleType:
    """`waymesh_amqp/_engine.py` loaded by itself: importing its package would choose an engine while one is being
    built."""
    spec = importlib.util.spec_from_file_location("waymesh_engine_choice", ROOT / "waymesh_amqp" / "_engine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ENGINE = engine_module()


def source_path(name: str) -> str:
    """The module's source, relative to the repository's root; for the shared module the C file that Cython makes."""
    path: Path = ENGINE.source_of(name).relative_to(REPO)
    return str(path.with_suffix(".c") if name == SHARED else path)


def wanted_modules() -> list[str]:
    """The shared module and the hot modules that have a source file; the others are named on stderr."""
    present = [name for name in ENGINE.HOT if ENGINE.source_of(name).exists()]
    absent = [name for name in ENGINE.HOT if name not in present]
    if absent:
        print(f"engine: no source yet, skipped: {' '.join(absent)}", file=sys.stderr)
    return [SHARED, *present] if present else []


def compile_args(name: str) -> list[str]:
    """Return the C compiler's options for a module, in addition to those of Python's build."""
    special = ["-fno-builtin-memset"] if name in RECORDS else []
    return ["-O1" if name in COLD else "-O3", *COMPILE_ARGS, *special]


def extension(name: str) -> Extension:
    """A module with its files in C."""
    from setuptools import Extension

    own = [str(path.relative_to(REPO)) for path in ENGINE.c_files_of(name)]
    return Extension(
        name,
        [source_path(name), *(path for path in own if path.endswith(".c"))],
        depends=own,
        include_dirs=sorted({os.path.dirname(path) for path in own}),
        extra_compile_args=compile_args(name),
    )


def extensions(names: Sequence[str]) -> list[Extension]:
    """Cython's C files for the modules, as setuptools extensions. Paths are relative: run in the repository's root."""
    if not names:
        return []
    from Cython.Build import cythonize

    made: list[Extension] = cythonize(  # type: ignore[no-untyped-call]
        [extension(name) for name in names],
        build_dir=str((BUILD / "c").relative_to(REPO)),
        include_path=[str(ROOT.relative_to(REPO))],
        compiler_directives=DIRECTIVES,
        shared_utility_qualified_name=SHARED,
        force=True,  # the hashes below decide what is stale, not file times
        nthreads=PARALLEL if len(names) > 1 else 0,
        quiet=True,
    )
    return made


def compile_one(name: str) -> Path | None:
    """The compiled file of one module, still in the build folder; None after a compiler's error, which is on stderr."""
    from Cython.Compiler.Errors import CompileError
    from setuptools import Distribution
    from setuptools.errors import BaseError

    try:
        modules = extensions([name])
        distribution = Distribution({"name": "waymesh", "ext_modules": modules, "script_name": "setup.py"})
        command = distribution.get_command_obj("build_ext")
        command.force = True
        command.build_lib = str(BUILD / "lib")
        command.build_temp = str(BUILD / "o")
        command.ensure_finalized()
        command.run()
    except CompileError as error:
        print(f"engine: Cython does not accept {error}: see its messages above", file=sys.stderr)
        return None
    except BaseError as error:
        print(f"engine: {name}: {error}", file=sys.stderr)
        return None
    return Path(command.get_ext_fullpath(name))


def compile_all(names: Sequence[str]) -> dict[str, Path]:
    """The compiled files of the modules that compile, on all processors, the longest sources first."""
    import Cython.Build  # noqa: F401 - before the processes part, so that each need not load it

    if not names:
        return {}

    def length(name: str) -> int:
        return sys.maxsize if name == SHARED else os.path.getsize(source_path(name))

    ordered = sorted(names, key=length, reverse=True)
    with ProcessPoolExecutor(min(PARALLEL, len(ordered))) as pool:
        return {name: made for name, made in zip(ordered, pool.map(compile_one, ordered), strict=True) if made}


def hashes(names: Iterable[str]) -> dict[str, str]:
    """Return for each module the hash of all inputs of its compiled form."""
    from Cython.Build.Dependencies import create_dependency_tree
    from Cython.Compiler.Main import Context
    from Cython.Compiler.Options import CompilationOptions

    versions = (sys.version, platform.machine(), compiler_version(), importlib.metadata.version("cython"))
    settings = (versions, SHARED, sorted(DIRECTIVES.items()))
    common = hashlib.sha256(repr(settings).encode())
    options = CompilationOptions(include_path=[str(ROOT.relative_to(REPO))])  # type: ignore[no-untyped-call]
    context = Context.from_options(options)  # type: ignore[no-untyped-call]
    tree = create_dependency_tree(context, quiet=True)  # type: ignore[no-untyped-call]
    found = {}
    for name in names:
        digest = common.copy()
        digest.update(repr(compile_args(name)).encode())
        parts = sorted(tree.all_dependencies(source_path(name))) if name != SHARED else []
        for part in [*parts, *map(str, ENGINE.c_files_of(name))]:
            # Relative, so that another checkout, whose .venv has Cython's own declarations, gets the same hash.
            digest.update(os.path.relpath(part, REPO).encode())
            digest.update(Path(part).read_bytes())
        found[name] = digest.hexdigest()
    return found


def compiler_version() -> str:
    """What Python's C compiler says of itself; empty if there is none."""
    command = [*(sysconfig.get_config_var("CC") or "cc").split(), "--version"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


class Cache:
    """Compiled files outside the checkout, each in a folder that is named by the hash of its inputs.

    A build never fails because of the cache: it may be read-only or full, and other checkouts use it at the same time.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, digest: str) -> Path | None:
        """Return the compiled file with this hash; it is kept for longer."""
        folder = self._folder / digest
        found = next(folder.glob("*so"), None)
        if found is not None:
            with contextlib.suppress(OSError):
                os.utime(folder)
        return found

    def add(self, made: Path, digest: str) -> None:
        """Keep a copy if possible. It appears as a whole or not at all."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            fresh = tempfile.mkdtemp(prefix=".new.", dir=self._folder)
        except OSError:
            return
        try:
            shutil.copy(made, fresh)
            os.rename(fresh, self._folder / digest)
        except OSError:  # no space, or another checkout was faster
            shutil.rmtree(fresh, ignore_errors=True)

    def remove_old(self, now: float) -> None:
        """Remove what nobody has used for KEPT_S."""
        for folder in self._folder.glob("*"):
            with contextlib.suppress(FileNotFoundError):  # another checkout removed it
                if now - folder.stat().st_mtime > KEPT_S:
                    shutil.rmtree(folder, ignore_errors=True)


def noted() -> dict[str, str]:
    """The hashes of the last build; empty when there was none."""
    try:
        notes: dict[str, str] = json.loads(NOTES.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return notes


def put_in_place(made: Path, name: str) -> None:
    """Replace a module's compiled file atomically; processes that have loaded the previous one keep it."""
    target: Path = ENGINE.source_of(name).with_name(made.name)
    fresh = target.with_name(f".new.{made.name}")
    shutil.copy(made, fresh)
    os.replace(fresh, target)
    remove_twins([name], keep=target)


def remove_twins(names: Iterable[str], keep: Path | None = None) -> None:
    """Remove compiled files, including those of other Python versions: CPython would prefer them to the source."""
    for name in names:
        source = ENGINE.source_of(name)
        for twin in source.parent.glob(f"{source.stem}.*so"):
            if twin != keep:
                twin.unlink()


def remove_unlisted(names: Collection[str]) -> None:
    """Remove the compiled files of other modules: one whose source was renamed or removed could still be imported."""
    for compiled in ROOT.glob("waymesh_*/**/*.*so"):
        module = compiled.with_name(compiled.name.lstrip(".").partition(".")[0])
        if ".".join(module.relative_to(ROOT).parts) not in names:
            compiled.unlink()


def main() -> int:
    """Build the stale modules and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--force", action="store_true", help="compile every hot module again")
    parser.add_argument("--clean", action="store_true", help="remove the compiled modules and stop")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="keep compiled files here, and use those kept")
    options = parser.parse_args()
    os.chdir(REPO)
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if options.clean:
            remove_twins([*ENGINE.HOT, SHARED])
            NOTES.unlink(missing_ok=True)
            return 0
        return build(options.force, Cache(options.cache) if options.cache else None)


def build(force: bool, cache: Cache | None) -> int:
    """Compile the stale modules or find them in the cache, move the results into place and record their hashes."""
    began = time.time()
    names = wanted_modules()
    remove_unlisted(names)
    current, old = hashes(names), noted()
    fresh = {n for n in names if current[n] == old.get(n) and ENGINE.twin_of(n) is not None}
    todo = [n for n in names if force or n not in fresh]
    if todo:
        found = {n: path for n in todo if cache and not force and (path := cache.find(current[n]))}
        if found:
            print(f"engine: in the cache: {len(found)} of {len(todo)} modules", file=sys.stderr)
        rest = [n for n in todo if n not in found]
        if rest:
            print(f"engine: compiling {' '.join(rest)}", file=sys.stderr)
        made = unchanged(found | compile_all(rest), current)
        if cache:
            for name in made.keys() - found.keys():
                cache.add(made[name], current[name])
            cache.remove_old(began)
        for name, path in made.items():
            put_in_place(path, name)
        # A stale compiled module must not be used with new ones: their classes have different memory layouts.
        remove_twins(set(todo) - fresh - set(made))
        fresh |= set(made)
        NOTES.write_text(json.dumps({n: current[n] for n in names if n in fresh}, indent=1) + "\n")
    date(fresh, began)
    return 0 if fresh.issuperset(todo) and fresh.issuperset(names) else 1


def unchanged(made: dict[str, Path], before: dict[str, str]) -> dict[str, Path]:
    """Return the compiled files without those whose source was edited meanwhile: which version was compiled is
    unknown."""
    after = hashes(made)
    edited = [n for n in made if after[n] != before[n]]
    if edited:
        print(f"engine: changed while compiling, build again: {' '.join(edited)}", file=sys.stderr)
    return {n: path for n, path in made.items() if n not in edited}


def date(names: Collection[str], when: float) -> None:
    """Set the compiled files' times to match their hashes: built from the sources as of `when` (see `fault_of`)."""
    for name in names:
        twin = ENGINE.twin_of(name)
        assert twin is not None
        os.utime(twin, (when, when))


if __name__ == "__main__":
    sys.exit(main())
