"""The exported files: finding them and dropping duplicates."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from waymesh_analytics.errors import AnalyticsError
from waymesh_analytics.hours import hour_of
from waymesh_analytics.spark.failures import is_path_not_found
from waymesh_schema.telemetry import SUFFIX, FileName, parse_path

from .local_storage import FILE, files_under, local_path

LISTED = T.StructType(
    [
        T.StructField("path", T.StringType()),
        T.StructField("modificationTime", T.TimestampType()),
        T.StructField("length", T.LongType()),
        T.StructField("content", T.BinaryType()),
    ]
)


YEARS = range(1970, 9999)
"""The years of files: weeks before and after them are dates, too."""
MOST = 1 << 53
"""Limit of the numbers in the names of files."""
ORIGIN = 8
"""Length of an `origin`."""


@dataclass(frozen=True, slots=True)
class RawFile:
    """An exported file."""

    path: str
    # Bytes.
    size: int
    name: FileName

    @property
    def hour(self) -> str:
        """The hour of the file's records."""
        return hour_of(self.name.dt, self.name.hr)


@dataclass(slots=True)
class Listing:
    """The exported files of a folder."""

    # Files by kind and hour.
    files: dict[str, dict[str, list[RawFile]]] = field(default_factory=dict)
    # Copies of files, and files whose records are all in a longer one.
    duplicates: list[str] = field(default_factory=list)
    # Files with the right suffix whose names cannot be parsed.
    unrecognized: list[str] = field(default_factory=list)

    def only(self, wanted: Container[tuple[str, str]]) -> Listing:
        """Only the files of the wanted (kind, hour) pairs."""
        chosen = {
            kind: {hour: files for hour, files in hours.items() if (kind, hour) in wanted}
            for kind, hours in self.files.items()
        }
        return Listing(chosen)


def files_below(spark: SparkSession, folders: list[str]) -> DataFrame:
    """Path and length of all exported files below folders, listed in parallel by Spark; their content is not read."""
    reader = spark.read.format("binaryFile").schema(LISTED)
    options = reader.option("recursiveFileLookup", True).option("pathGlobFilter", f"*{SUFFIX}")
    return options.load(folders).select("path", "length")


def find_files(spark: SparkSession, folders: list[str]) -> Listing:
    """All exported files below folders. Raises AnalyticsError if a folder does not exist."""
    if all(folder.startswith((FILE, "/")) for folder in folders):
        return choose(_local_files(folders))
    try:
        rows = files_below(spark, folders).collect()
    except AnalysisException as error:
        if not is_path_not_found(error):
            raise
        raise AnalyticsError(f"no such folder: {' '.join(folders)}") from error
    return choose((row["path"], row["length"]) for row in rows)


def _local_files(folders: list[str]) -> Iterator[tuple[str, int]]:
    """As `files_below`, without the jobs that Spark needs for it."""
    for folder in folders:
        place = local_path(folder)
        if not place.is_dir():
            raise AnalyticsError(f"no such folder: {folder}")
        try:
            yield from (found for found in files_under(place) if found[0].endswith(SUFFIX))
        except OSError as error:
            raise AnalyticsError(f"{error.filename}: {error.strerror}") from error


def choose(found: Iterable[tuple[str, int]]) -> Listing:
    """Choose one file for each (kind, hour, router, boot, first seq): the one with most records and bytes.

    A file that was copied, or published partly and then completely, is therefore counted once.
    """
    listing = Listing()
    best: dict[tuple[str, str, str, int, int], RawFile] = {}
    for path, size in sorted(found):
        shown = path.encode(errors="replace").decode()  # names on disk need not be UTF-8
        name = parse_path(path) if shown == path else None
        if name is None or not _is_possible(name):
            listing.unrecognized.append(shown)
            continue
        file = RawFile(path, size, name)
        key = (name.kind, file.hour, name.router, name.boot, name.first)
        rival = best.get(key)
        if rival is None or (rival.name.count, rival.size) < (name.count, size):
            best[key] = file
        if rival is not None:
            listing.duplicates.append(rival.path if best[key] is file else path)
    for file in best.values():
        listing.files.setdefault(file.name.kind, {}).setdefault(file.hour, []).append(file)
    return listing


def _is_possible(name: FileName) -> bool:
    """Whether the report can calculate with the date and the numbers of a name."""
    try:
        day = date.fromisoformat(name.dt)
    except ValueError:
        return False
    return day.year in YEARS and max(name.boot, name.first, name.count) < MOST


def fingerprint(files: Iterable[RawFile]) -> str:
    """A hash of the names and sizes of files; it does not depend on their folder."""
    digest = hashlib.sha256()
    for line in sorted(f"{file.name.path} {file.size}\n" for file in files):
        digest.update(line.encode())
    return digest.hexdigest()[:16]


def origin(file: RawFile) -> str:
    """Eight hex digits for the router, boot and first record of a file, which a longer version of it has, too."""
    name = file.name
    return hashlib.sha256(f"{name.router} {name.boot} {name.first}".encode()).hexdigest()[:ORIGIN]


def origins(files: Iterable[RawFile]) -> str:
    """The origins of files, in one text."""
    return "".join(sorted(origin(file) for file in files))


def split_origins(text: str) -> frozenset[str]:
    """The origins in a text."""
    return frozenset(text[at : at + ORIGIN] for at in range(0, len(text), ORIGIN))
