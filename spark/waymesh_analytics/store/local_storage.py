"""Storage in local folders and volumes, without Java: a call through Hadoop costs some milliseconds, and each of its
classes that is loaded for the first time many more."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from pyspark.sql import SparkSession

from waymesh_analytics.errors import AnalyticsError

FILE = "file:"
"""Prefix of addresses of local paths. They are never escaped: Hadoop uses each character unchanged."""


def local_path(address: str) -> Path:
    """The path in file:/path or file:///path, or the path itself."""
    return Path("/" + address.removeprefix(FILE).lstrip("/"))


def address_of(path: str) -> str:
    """The address of a local path, which does not depend on Spark's default file system."""
    return f"{FILE}//{Path(path).resolve()}"


class LocalStorage:
    """The files below `root`, a file: address. All paths are relative to it. Failures raise AnalyticsError."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = root.rstrip("/")
        self._folder = local_path(self.root)

    def full(self, path: str) -> str:
        """The full path."""
        return f"{self.root}/{path}" if path else self.root

    def exists(self, path: str) -> bool:
        """Whether the path is a file or a folder."""
        with self._failures(path):
            return (self._folder / path).exists()

    def is_folder(self, path: str) -> bool:
        """Whether the path is a folder."""
        with self._failures(path):
            return (self._folder / path).is_dir()

    def modified(self, path: str) -> float:
        """When a file was written, in seconds since 1970."""
        with self._failures(path):
            return (self._folder / path).stat().st_mtime

    def size(self, path: str) -> int:
        """The bytes of a file."""
        with self._failures(path):
            return (self._folder / path).stat().st_size

    def names(self, path: str) -> list[str]:
        """The sorted names of a folder's entries; empty if the folder does not exist."""
        with self._failures(path):
            try:
                return sorted(os.listdir(self._folder / path))
            except FileNotFoundError:
                return []

    def read_text(self, path: str) -> str:
        """The content of a UTF-8 file."""
        return self.read_bytes(path).decode(errors="replace")

    def read_bytes(self, path: str) -> bytes:
        """The content of a file."""
        with self._failures(path):
            return (self._folder / path).read_bytes()

    def write_text(self, path: str, text: str) -> None:
        """Replace a file: a reader sees the old one or the new one."""
        self.write_bytes(path, text.encode())

    def write_bytes(self, path: str, content: bytes) -> None:
        """Like `write_text`, for bytes."""
        with self._failures(path):
            partial = self._folder / f"{path}.tmp"
            _write(partial, content)
            partial.replace(self._folder / path)

    def write_new(self, path: str, text: str) -> None:
        """Create a file atomically: a reader sees nothing or all of it. Raises FileExistsError."""
        target = self._folder / path
        partial = target.with_name(f".{target.name}.{uuid4().hex[:8]}.tmp")
        with self._failures(path):
            _write(partial, text.encode())
            if not target.exists():
                partial.rename(target)
                return
            partial.unlink()
        raise FileExistsError(self.full(path))

    def put(self, path: str, text: str) -> None:
        """Write a file in place: it always exists, but a reader may see only a part of it."""
        with self._failures(path):
            _write(self._folder / path, text.encode())

    def delete(self, path: str) -> None:
        """Remove a file, or a folder with its content; does nothing if the path does not exist."""
        target = self._folder / path
        with self._failures(path):
            try:
                if target.is_dir() and not target.is_symlink():
                    shutil.rmtree(target)
                else:
                    target.unlink()
            except FileNotFoundError:
                pass

    @contextmanager
    def _failures(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise AnalyticsError(f"{self.full(path)}: {error.strerror or error}") from error


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # otherwise a crash may keep the name and lose the content


def files_under(folder: Path) -> Iterator[tuple[str, int]]:
    """Address and bytes of the files below a folder, without those that Spark does not list: hidden and empty ones.

    Raises OSError if a folder cannot be listed.
    """
    seen: set[tuple[int, int]] = set()
    for place, folders, names in os.walk(folder, onerror=_refuse, followlinks=True):
        if not _is_new(place, seen):
            folders.clear()
            continue
        folders[:] = [name for name in folders if not _hidden(name)]
        for name in names:
            if not _hidden(name):
                path = os.path.join(place, name)
                try:
                    found = os.stat(path)
                except OSError as error:
                    _refuse(error)  # otherwise, a router has just renamed it
                    continue
                if found.st_size and stat.S_ISREG(found.st_mode):
                    yield f"{FILE}{path}", found.st_size


def _is_new(folder: str, seen: set[tuple[int, int]]) -> bool:
    """Whether a folder was not seen before; links may lead to one more than once, or in a circle."""
    try:
        found = os.stat(folder)
    except OSError as error:
        _refuse(error)
        return False
    place = found.st_dev, found.st_ino
    if place in seen:
        return False
    seen.add(place)
    return True


def _hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _refuse(error: OSError) -> None:
    """Raise an error, but not for what does not exist: also a link to itself."""
    if error.errno not in (errno.ENOENT, errno.ELOOP):
        raise error
