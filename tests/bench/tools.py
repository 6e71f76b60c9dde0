"""Compiles the C tools (load generator, relay floor) when their source changed, outside the source tree."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.errors import BenchError

NATIVE: Final = Path(__file__).resolve().parent / "native"
_FLAGS: Final = ("-std=gnu11", "-O2", "-g", "-Wall", "-Wextra")
_TLS: Final = ("-DBENCH_TLS", "-lssl", "-lcrypto")


@dataclass(frozen=True)
class Tools:
    """Paths of the compiled tools."""

    loadgen: Path
    floor: Path


def cache_folder() -> Path:
    """Where compiled tools are kept: `$XDG_CACHE_HOME/waymesh/bench`, or the same under `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "waymesh" / "bench"


def build_tools(cache: Path | None = None) -> Tools:
    """The tools of the present source, compiled if need be. Raises BenchError when there is no compiler or it fails."""
    compiler = os.environ.get("CC") or "cc"
    sources = sorted(NATIVE.glob("*.[ch]"))
    digest = hashlib.sha256(" ".join((compiler, *_FLAGS)).encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    folder = (cache or cache_folder()) / digest.hexdigest()[:16]
    tools = Tools(folder / "loadgen", folder / "floor")
    if tools.loadgen.exists() and tools.floor.exists():
        return tools
    if shutil.which(compiler) is None:
        raise BenchError(f"no C compiler ({compiler}); install one (Debian: apt-get install gcc libc6-dev)")
    folder.mkdir(parents=True, exist_ok=True)
    own = [str(s) for s in sources if s.suffix == ".c" and s.stem != "floor"]
    for program, files in ((tools.floor, [str(NATIVE / "floor.c")]), (tools.loadgen, own)):
        try:
            _compile(compiler, files, program, _TLS)
        except BenchError:  # most likely no OpenSSL headers: everything but TLS works without
            _compile(compiler, files, program, ())
    return tools


def _compile(compiler: str, sources: list[str], target: Path, extra: tuple[str, ...]) -> None:
    # Another run may do the same at this moment: make it aside, then move it there in one step.
    aside = target.with_name(f"{target.name}.{os.getpid()}")
    command = [compiler, *_FLAGS, *sources, "-o", str(aside), *extra, "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise BenchError(f"{compiler} failed for {target.name}:\n{done.stderr.strip()}")
    aside.replace(target)
