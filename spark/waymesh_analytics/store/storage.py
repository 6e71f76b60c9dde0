"""`Files` for the store and the report: in local folders and volumes, or on Hadoop's file systems (s3a://)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from waymesh_analytics.errors import AnalyticsError
from waymesh_analytics.spark.failures import translate_errors

from .local_storage import FILE, LocalStorage


class HadoopStorage:
    """The files below `root`. All paths are relative to it."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = root.rstrip("/")
        self._jvm: Any = spark.sparkContext._jvm
        self._conf: Any = spark.sparkContext._jsc.hadoopConfiguration()
        self._system: Any = self._path("").getFileSystem(self._conf)
        self._system.setWriteChecksum(False)  # no .crc files: Parquet has its own checksums

    def full(self, path: str) -> str:
        """The full path."""
        return f"{self.root}/{path}" if path else self.root

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.full(path))

    def exists(self, path: str) -> bool:
        """Whether the path is a file or a folder."""
        return bool(self._system.exists(self._path(path)))

    def is_folder(self, path: str) -> bool:
        """Whether the path is a folder."""
        return self.exists(path) and bool(self._system.getFileStatus(self._path(path)).isDirectory())

    def modified(self, path: str) -> float:
        """When a file was written, in seconds since 1970."""
        return float(self._system.getFileStatus(self._path(path)).getModificationTime()) / 1000

    def names(self, path: str) -> list[str]:
        """The sorted names of a folder's entries; empty if the folder does not exist."""
        if not self.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in self._system.listStatus(self._path(path)))

    def read_text(self, path: str) -> str:
        """The content of a UTF-8 file."""
        with translate_errors(self.full(path)):
            stream = self._system.open(self._path(path))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def read_bytes(self, path: str) -> bytes:
        """The content of a file."""
        stream = self._system.open(self._path(path))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
        """Replace a file. Not for files that must not be lost.

        A reader never sees a part of it, but may briefly find no file: Hadoop deletes the old one before the rename.
        """
        self.write_bytes(path, text.encode())

    def write_bytes(self, path: str, content: bytes) -> None:
        """Like `write_text`, for bytes."""
        partial = self._path(f"{path}.tmp")
        self._write(partial, content)
        overwrite = self._jvm.org.apache.hadoop.fs.Options.Rename.OVERWRITE
        self._rename(partial, self._path(path), overwrite)

    def write_new(self, path: str, text: str) -> None:
        """Create a file atomically: a reader sees nothing or all of it. Raises FileExistsError."""
        folder, _, name = path.rpartition("/")
        partial = self._path(f"{folder}/.{name}.{uuid4().hex[:8]}.tmp")
        self._write(partial, text.encode())
        none = self._jvm.org.apache.hadoop.fs.Options.Rename.NONE
        try:
            with translate_errors(self.full(path)):
                self._rename(partial, self._path(path), none)
        except AnalyticsError as error:
            self._system.delete(partial, False)
            if self.exists(path):
                raise FileExistsError(self.full(path)) from error
            raise

    def put(self, path: str, text: str) -> None:
        """Write a file in place: it always exists, but a reader may see only a part of it."""
        with translate_errors(self.full(path)):
            self._write(self._path(path), text.encode())

    def _write(self, path: Any, content: bytes) -> None:
        stream = self._system.create(path, True)
        try:
            stream.write(content)
            if stream.hasCapability("hsync"):
                stream.hsync()  # otherwise a crash may keep the name and lose the content
        finally:
            stream.close()

    def _rename(self, old: Any, new: Any, option: Any) -> None:
        options = self.spark.sparkContext._gateway.new_array(self._jvm.org.apache.hadoop.fs.Options.Rename, 1)
        options[0] = option
        self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(old.toUri(), self._conf).rename(old, new, options)

    def delete(self, path: str) -> None:
        """Remove a file, or a folder with its content; does nothing if the path does not exist."""
        self._system.delete(self._path(path), True)


Storage = HadoopStorage | LocalStorage


def open_storage(spark: SparkSession, root: str) -> Storage:
    """The files below an address."""
    return LocalStorage(spark, root) if root.startswith(FILE) else HadoopStorage(spark, root)


def hadoop_settings(spark: SparkSession, names: Iterable[str]) -> dict[str, str]:
    """The values of Hadoop's settings that are not empty."""
    conf: Any = spark.sparkContext._jsc.hadoopConfiguration()
    return {name: value for name in names if (value := str(conf.getTrimmed(name, "")))}
