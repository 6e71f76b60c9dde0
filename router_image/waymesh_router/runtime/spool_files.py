"""The files of a spool. A file appears under its final name whole or not at all, and its name follows from its content
(waymesh_schema): its records are of one hour, and their numbers have no gap.

Errors of the disk cost records, which are counted, and nothing else; where there is no room, samples go first.
"""

from __future__ import annotations

import errno
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from isal import isal_zlib

from waymesh_router.telemetry.exporter import DISK, ROOM
from waymesh_schema.telemetry import KINDS, PARTIAL, SUFFIX, VERSION, FileName, parse_path

LEVEL = 1
"""Of compression by ISA-L, which takes a fifth of zlib's time for as many bytes."""
READ_BYTES = 1 << 16
FILE_BYTES = 64 << 20
"""A file is ended when it holds so many bytes of lines."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
"""Of gzip: no name and no time, so that the same content makes the same file. Source: RFC 1952, 2.3."""
_LAST_BLOCK = b"\x03\x00"
"""Ends compressed data that were flushed to a whole octet: an empty block. Source: RFC 1951, 3.2.6."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Lines of one kind and one hour (since 1970); `first`: the seq of the first."""

    kind: str
    hour: int
    first: int
    count: int
    data: bytes


@dataclass(frozen=True, slots=True)
class SpoolSettings:
    """Where to, and whose records. `boot`: milliseconds since 1970. `max_bytes`: of this router's files in `root`."""

    root: Path
    mesh: str
    router: str
    boot: int
    max_bytes: int = 512 << 20


class _Open:
    """A file that is being written. What it holds after each piece can be read by a later process.

    `append` and `finish` raise OSError; the file then holds what it held before, and they can be tried again.
    """

    def __init__(self, path: Path, hour: int, first: int) -> None:
        """Raises OSError."""
        self.path = path
        self.hour = hour
        self.first = first
        self.count = 0
        self.size = 0
        self._crc = 0
        self._zip = isal_zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._end = 0
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)

    def goes_on(self, piece: Piece) -> bool:
        """Whether a piece comes right behind what there is."""
        return self.hour == piece.hour and self.first + self.count == piece.first and self.size < FILE_BYTES

    def pack(self, data: bytes) -> bytes:
        """What `append` takes. To be appended before anything else is packed: later data refer to it."""
        head = b"" if self._end else _HEAD
        return head + self._zip.compress(data) + self._zip.flush(zlib.Z_SYNC_FLUSH)

    def append(self, packed: bytes, piece: Piece) -> None:
        self._write(packed)
        self._end += len(packed)
        self._crc = isal_zlib.crc32(piece.data, self._crc)
        self.count += piece.count
        self.size += len(piece.data)

    def finish(self) -> None:
        """All of it is on the disk."""
        os.ftruncate(self._fd, self._end)
        self._write(_LAST_BLOCK + struct.pack("<LL", self._crc, self.size & 0xFFFFFFFF))
        os.fsync(self._fd)
        os.close(self._fd)

    def abandon(self) -> None:
        with suppress(OSError):
            os.close(self._fd)
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _write(self, data: bytes) -> None:
        done = 0
        while done < len(data):
            done += os.pwrite(self._fd, data[done:], self._end + done)


class SpoolFiles:
    """All files of one router in one folder. To be used by one thread."""

    def __init__(
        self,
        settings: SpoolSettings,
        log: Callable[[str, str], None],
        lost: Callable[[str, str, int], None],
    ) -> None:
        """`log(level, text)`. `lost(kind, reason, count)`: records are lost."""
        self._settings = settings
        self._log = log
        self._lost = lost
        self._open: dict[str, _Open] = {}
        self.error = ""
        """Why the disk does not take records; "" while it does."""
        self._name = quote(settings.router, safe="-_.~")

    def write(self, piece: Piece) -> None:
        """Add lines to the file of their kind, a new one where they do not go on with it."""
        there = self._open.get(piece.kind)
        if there is not None and not there.goes_on(piece):
            self._publish(piece.kind)
            there = None
        try:
            if there is None:
                there = self._with_room(piece.kind, lambda: self._begin(piece))
                self._open[piece.kind] = there
            self._append(there, piece)
        except OSError as error:
            self._failed(error)
            self._lost(piece.kind, DISK, piece.count)
            if there is not None:  # what comes now would refer to what is lost
                self._publish(piece.kind)
        else:
            self.error = ""

    def publish_all(self) -> None:
        """End all files and make room."""
        for kind in list(self._open):
            self._publish(kind)
        try:
            self._make_room()
        except OSError as error:
            self._failed(error)

    def recover(self) -> None:
        """What a former process left unfinished is published as far as it can be read."""
        for path in sorted(self._paths(PARTIAL)):
            try:
                self._recover(path)
            except OSError as error:
                self._failed(error)

    # ---- one file
    def _begin(self, piece: Piece) -> _Open:
        folder = self._settings.root / self._file_name(piece.kind, piece.hour, piece.first, 0).folder
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{PARTIAL}{self._name}-{self._settings.boot}-{piece.first:012d}{SUFFIX}"
        return _Open(path, piece.hour, piece.first)

    def _append(self, there: _Open, piece: Piece) -> None:
        packed = there.pack(piece.data)
        self._with_room(piece.kind, lambda: there.append(packed, piece))

    def _publish(self, kind: str) -> None:
        there = self._open.pop(kind)
        if not there.count:
            there.abandon()
            return
        try:
            self._with_room(kind, there.finish)
            there.path.rename(self._settings.root / self._file_name(kind, there.hour, there.first, there.count).path)
        except OSError as error:
            self._failed(error)
            self._lost(kind, DISK, there.count)
            there.abandon()

    def _file_name(self, kind: str, hour: int, first: int, count: int) -> FileName:
        moment = datetime.fromtimestamp(hour * 3600, UTC)
        router, boot = self._settings.router, self._settings.boot
        return FileName(kind, moment.date().isoformat(), moment.hour, router, boot, first, count)

    def _failed(self, error: OSError) -> None:
        """Said once until something succeeds again."""
        if not self.error:
            self._log("error", f"telemetry cannot be written: {error}; records are dropped until it can")
        self.error = str(error)

    # ---- room
    def _with_room(self, kind: str, action: Callable[[], Any]) -> Any:
        """Do something; while there is no room for it, and it is not for samples, samples go. Raises OSError."""
        while True:
            try:
                return action()
            except OSError as error:
                if error.errno not in NO_ROOM or KINDS[kind].sampled or not self._drop_samples():
                    raise

    def _drop_samples(self) -> bool:
        """Remove the oldest file of samples, in the end the one that is being written; whether there was one."""
        samples = [path for path in self._paths("") if _sampled(path)]
        if samples:
            self._remove(min(samples, key=_age))
            return True
        for kind, there in list(self._open.items()):
            if KINDS[kind].sampled:
                self._lost(kind, ROOM, there.count)
                self._open.pop(kind).abandon()
                return True
        return False

    def _make_room(self) -> None:
        """Remove the oldest files while all together are too large: samples first, for they are the least missed."""
        sizes = {path: size for path in self._paths("") if (size := _size(path)) is not None}
        excess = sum(sizes.values()) - self._settings.max_bytes
        for path in sorted(sizes, key=lambda path: (not _sampled(path), _age(path))):
            if excess <= 0:
                return
            self._remove(path)
            excess -= sizes[path]

    def _remove(self, path: Path) -> None:
        """Its records are lost, unless it was taken away to somewhere else meanwhile."""
        with suppress(FileNotFoundError):
            path.unlink()
            name = parse_path(path.relative_to(self._settings.root).as_posix())
            if name is not None:
                self._lost(name.kind, ROOM, name.count)

    def _paths(self, begin: str) -> list[Path]:
        """This router's files; `begin`: PARTIAL for unfinished ones, nothing for others."""
        numbers = 2 if begin else 3
        ours = re.compile(rf"{re.escape(begin + self._name)}(-\d+){{{numbers}}}{re.escape(SUFFIX)}")
        folder = self._settings.root / f"v{VERSION}"
        return [path for path in folder.glob(f"kind=*/dt=*/hr=*/{begin}*{SUFFIX}") if ours.fullmatch(path.name)]

    # ---- a former process
    def _recover(self, path: Path) -> None:
        kind = path.parts[-4].removeprefix("kind=")
        dt, hour = path.parts[-3].removeprefix("dt="), int(path.parts[-2].removeprefix("hr="))
        boot, first = (int(part) for part in path.name.removesuffix(SUFFIX).rsplit("-", 2)[1:])
        whole = _Open(path.with_name(f"{PARTIAL}{self._name}{SUFFIX}"), 0, first)
        try:
            for lines in _readable(path):
                piece = Piece(kind, 0, first, lines.count(b"\n"), lines)
                whole.append(whole.pack(lines), piece)
            if whole.count and kind in KINDS:
                whole.finish()
                name = FileName(kind, dt, hour, self._settings.router, boot, first, whole.count)
                whole.path.rename(self._settings.root / name.path)
            else:
                whole.abandon()
        except OSError:
            whole.abandon()
            raise
        path.unlink()


def _sampled(path: Path) -> bool:
    kind = KINDS.get(path.parts[-4].removeprefix("kind="))
    return kind is not None and kind.sampled


def _age(path: Path) -> tuple[int, str, str, int]:
    """Orders files from the oldest on: by incarnation, hour and number."""
    boot, first, _ = path.name.removesuffix(SUFFIX).rsplit("-", 3)[1:]
    return int(boot), path.parts[-3], path.parts[-2], int(first)


def _size(path: Path) -> int | None:
    """None for a file that is not there any more."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _readable(path: Path) -> Iterator[bytes]:
    """The whole lines of a file whose end may be missing or torn, some at a time."""
    unzip = zlib.decompressobj(zlib.MAX_WBITS | 16)
    rest, torn = b"", False
    with path.open("rb") as file:
        while not torn and (piece := file.read(READ_BYTES)):
            data, torn = _inflate(unzip, piece)
            data = rest + data
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            if end:
                yield data[:end]


def _inflate(unzip: Any, piece: bytes) -> tuple[bytes, bool]:
    """What a piece holds, as far as it can be read, and whether that was not all."""
    before = unzip.copy()
    try:
        return unzip.decompress(piece), False
    except zlib.error:  # which takes along what came out before it: once more, octet by octet
        found = bytearray()
        for octet in piece:
            try:
                found += before.decompress(bytes((octet,)))
            except zlib.error:
                break
        return bytes(found), True
