"""Files of the store through Hadoop's file systems, so that a folder, a volume and s3a:// are one."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from waymesh_analytics.errors import AnalyticsError
from waymesh_analytics.spark.failures import told_plainly

from .files import Taken


class Storage:
    """The folder `root`. All paths are relative to it."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = root.rstrip("/")
        self._jvm: Any = spark.sparkContext._jvm
        self._conf: Any = spark.sparkContext._jsc.hadoopConfiguration()
        self._system: Any = self._path("").getFileSystem(self._conf)
        self._system.setWriteChecksum(False)  # no .crc files beside ours: Parquet has its own

    def full(self, path: str) -> str:
        """The path as Spark is given it."""
        return f"{self.root}/{path}" if path else self.root

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.full(path))

    def exists(self, path: str) -> bool:
        """Whether there is something."""
        return bool(self._system.exists(self._path(path)))

    def names(self, path: str) -> list[str]:
        """What a folder holds, sorted; nothing where there is no folder."""
        if not self.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in self._system.listStatus(self._path(path)))

    def read_text(self, path: str) -> str:
        """A whole file as UTF-8."""
        with told_plainly(self.full(path)):
            stream = self._system.open(self._path(path))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def read_bytes(self, path: str) -> bytes:
        """A whole file."""
        stream = self._system.open(self._path(path))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
        """Write a file over another. A reader never sees a part, but may for a moment find none: Hadoop deletes the old
        one before it renames the new one. Not for what must not get lost."""
        partial = self._path(f"{path}.tmp")
        self._write(partial, text)
        overwrite = self._jvm.org.apache.hadoop.fs.Options.Rename.OVERWRITE
        self._rename(partial, self._path(path), overwrite)

    def write_new(self, path: str, text: str) -> None:
        """Write a file that was not there: a reader sees nothing or all of it. Raises Taken."""
        folder, _, name = path.rpartition("/")
        partial = self._path(f"{folder}/.{name}.{uuid4().hex[:8]}.tmp")
        self._write(partial, text)
        none = self._jvm.org.apache.hadoop.fs.Options.Rename.NONE
        try:
            with told_plainly(self.full(path)):
                self._rename(partial, self._path(path), none)
        except AnalyticsError as error:
            self._system.delete(partial, False)
            if self.exists(path):
                raise Taken(self.full(path)) from error
            raise

    def put(self, path: str, text: str) -> None:
        """Write a file in place: it is never away, but a reader may see a part of it."""
        with told_plainly(self.full(path)):
            self._write(self._path(path), text)

    def _write(self, path: Any, text: str) -> None:
        stream = self._system.create(path, True)
        try:
            stream.write(text.encode())
            if stream.hasCapability("hsync"):
                stream.hsync()  # else a machine that crashes may keep the name and lose the content
        finally:
            stream.close()

    def _rename(self, old: Any, new: Any, option: Any) -> None:
        options = self.spark.sparkContext._gateway.new_array(self._jvm.org.apache.hadoop.fs.Options.Rename, 1)
        options[0] = option
        self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(old.toUri(), self._conf).rename(old, new, options)

    def delete(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing where there is none."""
        self._system.delete(self._path(path), True)
