"""How the Java of a run is started: for little data so that it is ready soon, for much so that it runs fast."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyspark

LITTLE_BYTES = 24 << 20
"""Compressed bytes of new files up to which Java's better compiler costs more than it saves."""
ARCHIVE = "WAYMESH_SPARK_ARCHIVE"
"""Names another place for the archive of Spark's classes; empty: none is used. An image brings its own."""
LITTLE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def java_options(source: str, commits: str) -> str:
    """Options for reading the folder `source`, what is older than the last change of the folder `commits` left out. Of
    object stores nothing is known beforehand."""
    much = "://" in source or _bytes_since(Path(source), _modified(Path(commits))) > LITTLE_BYTES
    return " ".join(([] if much else [LITTLE]) + _archive())


def _bytes_since(folder: Path, since: float) -> int:
    return sum(found.st_size for found in _files(folder) if found.st_mtime >= since)


def _files(folder: Path) -> Iterator[os.stat_result]:
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                yield os.stat(os.path.join(place, name))
            except OSError:
                continue  # a router may be publishing it


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _archive() -> list[str]:
    """Java's archive of the classes that Spark loads, which saves half of the start. Where there is none a run makes it
    at its end (JEP 350); one that does not fit is passed over by Java."""
    java = shutil.which("java")
    place = os.environ.get(ARCHIVE, _cached(java) if java else "")
    if not place:
        return []
    quiet = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    if os.path.exists(place):
        return [f"-XX:SharedArchiveFile={place}", *quiet]
    folder = os.path.dirname(place)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return []
    return [f"-XX:ArchiveClassesAtExit={place}", *quiet] if os.access(folder, os.W_OK) else []


def _cached(java: str) -> str:
    """The user's archive: one for each Java and PySpark."""
    parts = (os.path.realpath(java), os.stat(java).st_mtime_ns, pyspark.__version__, pyspark.__path__[0])
    name = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "waymesh", f"spark-{name}.jsa")
