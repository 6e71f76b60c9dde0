"""What tests need beyond Python packages: tools from apt, and things built once into a cache outside the checkout.

The cache is `waymesh-interop` in the user's cache folder; what is missing there is built anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BUILD_S = 900.0


@dataclass(frozen=True)
class BuildError(Exception):
    """A tool that is missing or failed."""

    text: str

    def __str__(self) -> str:
        return self.text


def need(tool: str, *packages: str) -> None:
    """Install a tool by apt where we may; BuildError with what to do where we may not."""
    if shutil.which(tool):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        names = " ".join(packages)
        raise BuildError(f"{tool} is missing. Install it first (Debian and Ubuntu: apt-get install {names}).")
    with _apt():
        if not shutil.which(tool):
            call(["apt-get", "update", "-qq"], Path("/"))
            install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
            call(["env", "DEBIAN_FRONTEND=noninteractive", *install], Path("/"))


def cached(sources: Path, build: Callable[[Path], object]) -> Path:
    """The folder that `build` filled from the files in `sources` as they are now; only one process builds."""
    digest = hashlib.sha256()
    for path in sorted(sources.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    root = _root()
    folder = root / f"{sources.name}-{digest.hexdigest()[:16]}"
    with (root / f"{sources.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            build(folder)
            (folder / "built").touch()
    return folder


def java_libraries(sources: Path) -> Path:
    """The folder of all jars that `sources`/pom.xml needs at run time, from Maven Central."""
    need("java", "default-jre-headless")
    need("mvn", "maven")
    copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
    command = ["mvn", "-q", "-B", "-ntp", "-f", str(sources / "pom.xml"), copy, "-DincludeScope=runtime"]
    return cached(sources, lambda folder: call([*command, f"-DoutputDirectory={folder}"], folder))


def debian_package(sources: Path) -> Path:
    """The unpacked files of the Debian package `sources`/package, which is not installed: no service, no user."""
    name = (sources / "package").read_text(encoding="utf-8").strip()

    def build(folder: Path) -> None:
        with _apt():
            call(["apt-get", "update", "-qq"], folder)
            call(["apt-get", "download", "-qq", name], folder)
        (package,) = folder.glob("*.deb")
        call(["dpkg", "-x", str(package), str(folder)], folder)
        package.unlink()

    return cached(sources, build)


def call(command: list[str], folder: Path) -> None:
    """Run a build step; BuildError with its output when it fails."""
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=BUILD_S
    )
    if done.returncode:
        raise BuildError(
            f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )


@contextmanager
def _apt() -> Iterator[None]:
    """One process at a time: apt does not wait for another."""
    with (_root() / "apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _root() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "waymesh-interop"
    root.mkdir(parents=True, exist_ok=True)
    return root
