"""Files of the store through Hadoop's file systems, so that a folder, a volume and s3a:// are one."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


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
        """Write a file so that a reader sees the old one or the new one, never a part."""
        partial = self._path(f"{path}.tmp")
        stream = self._system.create(partial, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(partial.toUri(), self._conf)
        overwrite = self._jvm.org.apache.hadoop.fs.Options.Rename.OVERWRITE
        options = self.spark.sparkContext._gateway.new_array(self._jvm.org.apache.hadoop.fs.Options.Rename, 1)
        options[0] = overwrite
        context.rename(partial, self._path(path), options)

    def delete(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing where there is none."""
        self._system.delete(self._path(path), True)
