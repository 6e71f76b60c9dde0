"""Root folders for images, copied from this environment: its interpreter, its packages, the checkout.

So an image holds exactly the versions that the tests run with, and making it asks no registry.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.cluster.command import run
from tests.cluster.paths import REPO
from tests.cluster.system import program

PREFIX = Path("usr/local")
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
SITE = PREFIX / "lib" / PYTHON / "site-packages"
USER_ID = 10001
LEFT_OUT = {"__pycache__", "site-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip"}
"""Parts of the standard library that a server has no use for."""

APPLETS = ("sh", "cat", "env", "hostname", "id", "ip", "kill", "ls", "nslookup", "ps", "sleep", "tail", "touch", "wget")
LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
SCRIPT = "#!/{python}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"


def interpreter(root: Path) -> None:
    """This Python, its standard library, the shared libraries of both, and busybox for a person's look into a pod."""
    for folder in ("bin", "lib", "lib64", "sbin"):
        (root / "usr" / folder).mkdir(parents=True, exist_ok=True)
        (root / folder).symlink_to(f"usr/{folder}")
    for folder in ("dev", "etc", "proc", "run", "sys", "tmp", "var"):
        (root / folder).mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text(f"root:x:0:0::/:/bin/sh\nwaymesh:x:{USER_ID}:{USER_ID}::/tmp:/bin/sh\n")
    (root / "etc/group").write_text(f"root:x:0:\nwaymesh:x:{USER_ID}:\n")
    (root / "etc/nsswitch.conf").write_text("hosts: files dns\n")
    base = Path(sys.base_prefix)
    binaries = root / PREFIX / "bin"
    binaries.mkdir(parents=True)
    shutil.copy(os.path.realpath(sys.executable), binaries / PYTHON)
    for name in ("python3", "python"):
        (binaries / name).symlink_to(PYTHON)
    library = root / PREFIX / "lib" / PYTHON
    shutil.copytree(base / "lib" / PYTHON, library, symlinks=True, ignore=_left_out)
    shared_libraries(root, [binaries / PYTHON, *library.rglob("*.so")])
    shutil.copy(program("busybox"), root / "bin/busybox")
    for applet in APPLETS:
        (root / "bin" / applet).symlink_to("busybox")
    precompile(root, library)


def packages(root: Path, extras: Iterable[str], left_out: Callable[[str], bool] = lambda path: False) -> None:
    """The installed distributions that these extras of the project need, with their shared libraries."""
    site = root / SITE
    for distribution in distributions(extras):
        for file in distribution.files or ():
            source = Path(str(file.locate()))
            if ".." in file.parts or source.suffix == ".pyc" or not source.exists() or left_out(str(file)):
                continue  # scripts, and what Python makes anew
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    shared_libraries(root, list(site.rglob("*.so")))
    precompile(root, site)


def project(root: Path) -> bool:
    """The project itself as it would be installed; whether its engine is the compiled one."""
    site = root / SITE
    build = ["egg_info", "--egg-base", str(root), "build_py", "--build-lib", str(site)]
    data = ["install_data", "--install-dir", str(root / PREFIX), "dist_info", "--output-dir", str(site)]
    root.mkdir(parents=True, exist_ok=True)
    run(sys.executable, "setup.py", "-q", *build, *data, cwd=REPO)
    for leftover in root.glob("*.egg-info"):
        shutil.rmtree(leftover)
    compiled = _compiled_twins(site)
    precompile(root, site)
    return compiled


def write_scripts(root: Path, names: Iterable[str]) -> None:
    """These of the project's scripts, as an installation writes them."""
    folder = root / PREFIX / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (module, function) in scripts().items():
        if name in names:
            script = folder / name
            script.write_text(SCRIPT.format(python=PREFIX / "bin" / PYTHON, module=module, function=function))
            script.chmod(0o755)


def scripts() -> dict[str, tuple[str, str]]:
    """All scripts of the project: module and function of each."""
    parts = {name: target.partition(":") for name, target in _pyproject()["scripts"].items()}
    return {name: (module, function) for name, (module, _, function) in parts.items()}


def distributions(extras: Iterable[str]) -> list[importlib.metadata.Distribution]:
    """All distributions, direct and transitive, behind extras of the project; by name."""
    own = _pyproject()
    todo = [Requirement(text) for extra in extras for text in own["optional-dependencies"][extra]]
    found: dict[str, importlib.metadata.Distribution] = {}
    seen: set[tuple[str, str]] = set()
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        if name == own["name"]:
            todo += [Requirement(text) for extra in wanted.extras for text in own["optional-dependencies"][extra]]
            continue
        for extra in ("", *wanted.extras):
            if (name, extra) in seen or (wanted.marker and not wanted.marker.evaluate({"extra": extra})):
                continue
            seen.add((name, extra))
            found[name] = importlib.metadata.distribution(name)
            todo += _required(found[name], extra)
    return [found[name] for name in sorted(found)]


def _required(distribution: importlib.metadata.Distribution, extra: str) -> Iterator[Requirement]:
    """What a distribution needs, with one extra or (empty) without any."""
    for text in distribution.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            requirement.marker = None
            yield requirement


def shared_libraries(root: Path, binaries: Iterable[Path]) -> None:
    """Copies the shared libraries of these binaries to where the loader looks, and the loader itself."""
    paths = {path for binary in binaries for path in _libraries_of(binary)}
    standard = next((path.parent for path in paths if path.name.startswith("libc.so")), Path("/usr/lib"))
    for path in paths:
        # A wheel's own libraries come with it; those of the interpreter's prefix move to where all others are.
        if root in path.parents or "site-packages" in path.parts:
            continue
        folder = path.parent if path.name.startswith("ld-") else standard
        target = root / str(folder).lstrip("/") / path.name
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


def _libraries_of(binary: Path) -> list[Path]:
    # Not `run`: ldd fails for a file that is linked statically, which needs nothing.
    listing = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False).stdout
    return [Path(path) for path in LIBRARY.findall(listing)]


def precompile(root: Path, folder: Path) -> None:
    """Bytecode beside the sources: a pod's root file system is read-only. It is not checked against file times."""
    words = ["-q", "-q", "-j", "2", "--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/", str(folder)]
    # Some packages carry files for other versions of Python: those stay without bytecode, and are never imported.
    subprocess.run(["nice", sys.executable, "-m", "compileall", *words], check=False)


def _compiled_twins(site: Path) -> bool:
    """Adds the engine's compiled files if all of them are there and none is stale."""
    from waymesh_amqp import _engine

    lock_file = REPO / "build/engine/lock"
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with open(lock_file, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # not while the builder puts files in place
        if any(_engine.fault_of(name) for name in _engine.HOT):
            return False
        sources = REPO / "router_image"
        for twin in sources.rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"):
            shutil.copy(twin, site / twin.relative_to(sources))
    return True


def _left_out(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name in LEFT_OUT or name.startswith(("config-", "_tkinter"))]


def _pyproject() -> dict[str, Any]:
    return dict(tomllib.loads((REPO / "pyproject.toml").read_text())["project"])
