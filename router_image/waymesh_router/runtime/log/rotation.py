"""Log files that are renamed when they are full, so that they cannot fill the disk."""

from __future__ import annotations

import errno
import os
import stat
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

KEPT_FILES = 5
"""Former files that are kept by default."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """The size in bytes at which a file is renamed, and the number of former files to keep: FILE.1 is the newest."""

    most_bytes: int
    kept: int


class RotationError(Exception):
    """A full file could not be replaced by a new one. The line was still written to it."""


class RotatingFile:
    """A file to which lines are appended, and which is renamed to FILE.1 before it gets larger than allowed."""

    def __init__(self, path: str, rotation: Rotation) -> None:
        """Raises OSError if the file cannot be opened or is not a regular one."""
        self._path = os.path.realpath(path)  # a symbolic link keeps pointing to the current file
        self._rotation = rotation
        self._reported = False
        if os.path.exists(self._path) and not stat.S_ISREG(os.stat(self._path).st_mode):
            raise OSError(errno.EINVAL, "maxMegabytes is for regular files only")
        self._open()

    def write(self, level: str, line: str) -> None:
        """Append a line. Raises RotationError after writing it if a new file cannot be started; for consecutive
        failures only once."""
        size = (len(line) if line.isascii() else len(line.encode())) + 1
        failure = None
        if self._size and self._size + size > self._rotation.most_bytes:
            failure = self._rotate()
        self._stream.write(line + "\n")
        self._size += size
        if failure is not None and not self._reported:
            self._reported = True
            raise RotationError(f"{self._path} cannot be rotated and keeps growing: {failure.strerror}")

    def close(self) -> None:
        with suppress(OSError):  # a full disk must not cause a failure at the end
            self._stream.close()

    def _open(self) -> None:
        self._stream: TextIO = Path(self._path).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115
        self._size = os.fstat(self._stream.fileno()).st_size

    def _rotate(self) -> OSError | None:
        former = self._stream
        try:
            self._make_room()
            with suppress(FileNotFoundError):  # another process has renamed it
                os.rename(self._path, f"{self._path}.1")
            self._open()
        except OSError as error:
            self._size = 0  # try again after the next `most_bytes`
            return error
        self._reported = False
        with suppress(OSError):
            former.close()
        return None

    def _make_room(self) -> None:
        """Rename FILE.1 to FILE.2 and so on, up to the first free number. If none is free, remove the oldest file."""
        kept = self._rotation.kept
        names = [f"{self._path}.{number}" for number in range(1, kept + 1)]
        free = next((index for index, name in enumerate(names) if not os.path.lexists(name)), None)
        if free is None:
            free = kept - 1
            _free_later(names[-1])
        for index in range(free, 0, -1):
            os.replace(names[index - 1], names[index])


def _free_later(path: str) -> None:
    """Remove a file, and free its blocks in a thread: this takes long for a large file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:  # the caller's rename replaces it
        return
    with suppress(OSError):
        os.unlink(path)
    threading.Thread(target=os.close, args=(file,), name="log", daemon=True).start()
