"""Java options of a run: a quick start for small data, fast execution for large data."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyspark

SMALL_BYTES = 24 << 20
"""Compressed bytes of new files up to which Java's optimizing compiler costs more than it saves."""
ARCHIVE = "WAYMESH_SPARK_ARCHIVE"
"""The environment variable with another path for the archive of Spark's classes; empty: no archive."""
SMALL_DATA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def java_options(source: str, commits: str = "", create_archive: bool = True) -> str:
    """Options for a run over the folder `source`; files older than the folder `commits`, if given, do not count.

    The size of data in object stores is not known in advance: it counts as large.
    """
    large = "://" in source or _bytes_since(Path(source), _modified(commits)) > SMALL_BYTES
    return " ".join(([] if large else [SMALL_DATA]) + _archive(create_archive))


def _bytes_since(folder: Path, since: float) -> int:
    return sum(found.st_size for found in _files(folder) if found.st_mtime >= since)


def _files(folder: Path) -> Iterator[os.stat_result]:
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                yield os.stat(os.path.join(place, name))
            except OSError:
                continue  # a router may be renaming it


def _modified(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _archive(create: bool) -> list[str]:
    """Options for the archive of the classes that Spark loads (JEP 350), which halves the time to start.

    If there is none, the run writes it at its end if `create` is set. Java ignores one that does not fit.
    """
    java = shutil.which("java")
    place = os.environ.get(ARCHIVE, _cached(java) if java else "")
    if not place:
        return []
    quiet = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    if os.path.exists(place):
        return [f"-XX:SharedArchiveFile={place}", *quiet]
    if not create:
        return []
    folder = os.path.dirname(place)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return []
    return [f"-XX:ArchiveClassesAtExit={place}", *quiet] if os.access(folder, os.W_OK) else []


def _cached(java: str) -> str:
    """The path of the user's archive: one for each version of Java and PySpark."""
    parts = (os.path.realpath(java), os.stat(java).st_mtime_ns, pyspark.__version__, pyspark.__path__[0])
    name = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "waymesh", f"spark-{name}.jsa")
