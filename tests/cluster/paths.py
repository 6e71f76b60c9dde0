"""Where the cluster tooling keeps things: outside the checkout, so that a fresh clone finds what was built before."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


def cache() -> Path:
    """The folder for built binaries, image layers and running clusters; WAYMESH_CACHE overrides it."""
    chosen = os.environ.get("WAYMESH_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(chosen) if chosen else Path(base) / "waymesh"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def digest(parts: Iterable[bytes]) -> str:
    """A short name for a content: 16 hexadecimal digits."""
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "big") + part)
    return total.hexdigest()[:16]


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Only one process at a time is inside; the others wait and say so."""
    with open(cache() / f"{name}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is busy with {name}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def say(text: str) -> None:
    """One line of progress on stderr."""
    print(f"cluster: {text}", file=sys.stderr, flush=True)
