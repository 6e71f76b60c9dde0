"""The exported files: which there are, which of them count, and their lines as rows."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from functools import reduce
from io import BytesIO

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from waymesh_analytics.errors import AnalyticsError
from waymesh_analytics.hours import hour_of
from waymesh_analytics.spark.failures import is_no_path, told_plainly
from waymesh_schema.telemetry import SUFFIX, FileName, parse_path

from .schemas import CORRUPT, line_schema
from .storage import Storage

LISTED = T.StructType(
    [
        T.StructField("path", T.StringType()),
        T.StructField("modificationTime", T.TimestampType()),
        T.StructField("length", T.LongType()),
        T.StructField("content", T.BinaryType()),
    ]
)


@dataclass(frozen=True, slots=True)
class RawFile:
    """A file: where, bytes, and what its name says."""

    path: str
    size: int
    name: FileName

    @property
    def hour(self) -> str:
        """The hour of its records."""
        return hour_of(self.name.dt, self.name.hr)


@dataclass(slots=True)
class Listing:
    """`files` by kind and hour, `duplicates`: files that are there already, under another path or as a part of another;
    `strange`: files that bear our suffix and no name of ours."""

    files: dict[str, dict[str, list[RawFile]]] = field(default_factory=dict)
    duplicates: list[str] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)

    def only(self, wanted: Container[tuple[str, str]]) -> Listing:
        """The files of some kinds' hours; the rest is left out."""
        chosen = {
            kind: {hour: files for hour, files in hours.items() if (kind, hour) in wanted}
            for kind, hours in self.files.items()
        }
        return Listing(chosen)


def files_below(spark: SparkSession, folders: list[str]) -> DataFrame:
    """path and length of the files below folders, by one listing that Spark shares out; nothing of them is read."""
    reader = spark.read.format("binaryFile").schema(LISTED)
    options = reader.option("recursiveFileLookup", True).option("pathGlobFilter", f"*{SUFFIX}")
    return options.load(folders).select("path", "length")


def find_files(spark: SparkSession, folders: list[str]) -> Listing:
    """The files that count. Raises AnalyticsError where a folder is not there."""
    try:
        rows = files_below(spark, folders).collect()
    except AnalysisException as error:
        if not is_no_path(error):
            raise
        raise AnalyticsError(f"no such folder: {' '.join(folders)}") from error
    return choose((row["path"], row["length"]) for row in rows)


def choose(found: Iterable[tuple[str, int]]) -> Listing:
    """One file for each beginning (kind, hour, router, boot, first seq): the one with most records and bytes.

    A file that was copied twice, or published in part and then as a whole, so counts once.
    """
    listing = Listing()
    best: dict[tuple[str, str, str, int, int], RawFile] = {}
    for path, size in sorted(found):
        name = parse_path(path)
        if name is None:
            listing.strange.append(path)
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


def fingerprint(files: Iterable[RawFile]) -> str:
    """Of the names and sizes of files: the same for the same content, wherever it stands."""
    digest = hashlib.sha256()
    for line in sorted(f"{file.name.path} {file.size}\n" for file in files):
        digest.update(line.encode())
    return digest.hexdigest()[:16]


def whole_lines(spark: SparkSession, file: RawFile) -> int | None:
    """How many lines a file has that are not empty; None where it breaks off or is no gzip file. Raises AnalyticsError
    where it can't be read: Spark itself does not tell such a file from one that breaks off."""
    folder, _, name = file.path.rpartition("/")
    with told_plainly(file.path):
        data = Storage(spark, folder).read_bytes(name)
    try:
        with gzip.open(BytesIO(data)) as lines:
            return sum(1 for line in lines if line.strip())
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return None


def read_lines(spark: SparkSession, kind: str, files: Iterable[RawFile]) -> DataFrame:
    """The lines of files as rows: the fields of the kind as they stand there, and CORRUPT: the text of what is no JSON
    or does not fit. A file that breaks off ends where it does, and so does one that could not be read on: see
    `whole_lines`."""
    reader = spark.read.schema(line_schema(kind)).option("columnNameOfCorruptRecord", CORRUPT)
    return reader.option("ignoreCorruptFiles", True).json([file.path for file in files])


def is_record() -> Column:
    """Whether a row of `read_lines` is a record: one without its envelope is none."""
    envelope = (F.col(name).isNotNull() for name in ("router", "boot", "seq", "ts"))
    return reduce(Column.__and__, envelope, F.col(CORRUPT).isNull())


def file_path() -> Column:
    """Of rows of `read_lines`: the file that they come from."""
    return F.col("_metadata.file_path")


def hour_column() -> Column:
    """Of rows of `read_lines`: the hour of the file."""
    place = F.substring_index(file_path(), "/", -3)  # dt=2026-01-31/hr=05/name
    return F.concat(F.substring(place, 4, 10), F.lit("T"), F.substring(place, 18, 2))


def corrupt_text(kind: str) -> Column:
    """Of rows of `read_lines`: what stood there where it is no record, else null. It names all fields: what does not
    fit in a field that nobody asks for, Spark does not look at."""
    fields = [F.col(name) for name in line_schema(kind).names if name != CORRUPT]
    return F.when(~is_record(), F.coalesce(F.col(CORRUPT), F.to_json(F.struct(*fields))))
