"""The files of a spool. A file gets its final name when it is complete. The name describes the content (see
waymesh_schema): records of one hour, with consecutive sequence numbers.

Disk errors only cause lost records, which are counted. If space is short, samples are removed first.
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
"""Compression level of ISA-L, which takes a fifth of zlib's time for the same size."""
READ_BYTES = 1 << 16
FILE_BYTES = 64 << 20
"""A file is closed when its lines have this many bytes, before compression."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
"""gzip header without name and time, so that equal content results in equal files. Source: RFC 1952, 2.3."""
_LAST_BLOCK = b"\x03\x00"
"""End of compressed data that was flushed to a whole byte: an empty block. Source: RFC 1951, 3.2.6."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Lines of one kind and one hour (since 1970); `first`: the sequence number of the first one."""

    kind: str
    hour: int
    first: int
    count: int
    data: bytes


@dataclass(frozen=True, slots=True)
class SpoolSettings:
    """Folder and identity of the records. `boot`: milliseconds since 1970. `max_bytes`: of the router's files."""

    root: Path
    mesh: str
    router: str
    boot: int
    max_bytes: int = 512 << 20


class _Open:
    """A file that is being written. Its content after each batch can be read by a later process.

    `append` and `finish` raise OSError; the content of the file is then unchanged, and they can be repeated.
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

    def continues(self, batch: Batch) -> bool:
        """Whether a batch follows the file's last record without a gap, and the file has room."""
        return self.hour == batch.hour and self.first + self.count == batch.first and self.size < FILE_BYTES

    def pack(self, data: bytes) -> bytes:
        """Compress data for `append`, which must be called before the next `pack`: later data refers to it."""
        head = b"" if self._end else _HEAD
        return head + self._zip.compress(data) + self._zip.flush(zlib.Z_SYNC_FLUSH)

    def append(self, packed: bytes, batch: Batch) -> None:
        self._write(packed)
        self._end += len(packed)
        self._crc = isal_zlib.crc32(batch.data, self._crc)
        self.count += batch.count
        self.size += len(batch.data)

    def finish(self) -> None:
        """Complete the file on the disk."""
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
    """All files of one router in one folder. Must only be used by one thread."""

    def __init__(
        self,
        settings: SpoolSettings,
        log: Callable[[str, str], None],
        lost: Callable[[str, str, int], None],
    ) -> None:
        """`log(level, text)` writes a log line; `lost(kind, reason, count)` counts lost records."""
        self._settings = settings
        self._log = log
        self._lost = lost
        self._open: dict[str, _Open] = {}
        self.error = ""
        """Why the disk does not accept records; "" if it does."""
        self._name = quote(settings.router, safe="-_.~")

    def write(self, batch: Batch) -> None:
        """Add lines to the file of their kind, or to a new one if they do not continue it."""
        file = self._open.get(batch.kind)
        if file is not None and not file.continues(batch):
            self._publish(batch.kind)
            file = None
        try:
            if file is None:
                file = self._with_room(batch.kind, lambda: self._begin(batch))
                self._open[batch.kind] = file
            self._append(file, batch)
        except OSError as error:
            self._failed(error)
            self._lost(batch.kind, DISK, batch.count)
            if file is not None:  # later compressed data would refer to the lost data
                self._publish(batch.kind)
        else:
            self.error = ""

    def publish_all(self) -> None:
        """Close all files, and remove old ones if there is not enough space."""
        for kind in list(self._open):
            self._publish(kind)
        try:
            self._make_room()
        except OSError as error:
            self._failed(error)

    def recover(self) -> None:
        """Publish the unfinished files of an earlier process, as far as they are readable."""
        for path in sorted(self._paths(PARTIAL)):
            try:
                self._recover(path)
            except OSError as error:
                self._failed(error)

    # ---- one file
    def _begin(self, batch: Batch) -> _Open:
        folder = self._settings.root / self._file_name(batch.kind, batch.hour, batch.first, 0).folder
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{PARTIAL}{self._name}-{self._settings.boot}-{batch.first:012d}{SUFFIX}"
        return _Open(path, batch.hour, batch.first)

    def _append(self, file: _Open, batch: Batch) -> None:
        packed = file.pack(batch.data)
        self._with_room(batch.kind, lambda: file.append(packed, batch))

    def _publish(self, kind: str) -> None:
        file = self._open.pop(kind)
        if not file.count:
            file.abandon()
            return
        try:
            self._with_room(kind, file.finish)
            file.path.rename(self._settings.root / self._file_name(kind, file.hour, file.first, file.count).path)
        except OSError as error:
            self._failed(error)
            self._lost(kind, DISK, file.count)
            file.abandon()

    def _file_name(self, kind: str, hour: int, first: int, count: int) -> FileName:
        moment = datetime.fromtimestamp(hour * 3600, UTC)
        router, boot = self._settings.router, self._settings.boot
        return FileName(kind, moment.date().isoformat(), moment.hour, router, boot, first, count)

    def _failed(self, error: OSError) -> None:
        """Log an error, once until the next success."""
        if not self.error:
            self._log("error", f"telemetry cannot be written: {error}; records are dropped until writing succeeds")
        self.error = str(error)

    # ---- room
    def _with_room(self, kind: str, action: Callable[[], Any]) -> Any:
        """Run an action; if the disk is full, remove samples and repeat, unless it is for samples. Raises OSError."""
        while True:
            try:
                return action()
            except OSError as error:
                if error.errno not in NO_ROOM or KINDS[kind].sampled or not self._drop_samples():
                    raise

    def _drop_samples(self) -> bool:
        """Remove the oldest file of samples; an unfinished one is removed last. Returns False if there is none."""
        samples = [path for path in self._paths("") if _sampled(path)]
        if samples:
            self._remove(min(samples, key=_age))
            return True
        for kind, file in list(self._open.items()):
            if KINDS[kind].sampled:
                self._lost(kind, ROOM, file.count)
                self._open.pop(kind).abandon()
                return True
        return False

    def _make_room(self) -> None:
        """Remove the oldest files while the total size is too large: samples first, because they matter least."""
        sizes = {path: size for path in self._paths("") if (size := _size(path)) is not None}
        excess = sum(sizes.values()) - self._settings.max_bytes
        for path in sorted(sizes, key=lambda path: (not _sampled(path), _age(path))):
            if excess <= 0:
                return
            self._remove(path)
            excess -= sizes[path]

    def _remove(self, path: Path) -> None:
        """Remove a file and count its records as lost, unless another process has moved it."""
        with suppress(FileNotFoundError):
            path.unlink()
            name = parse_path(path.relative_to(self._settings.root).as_posix())
            if name is not None:
                self._lost(name.kind, ROOM, name.count)

    def _paths(self, begin: str) -> list[Path]:
        """This router's files; `begin`: PARTIAL for unfinished ones, "" for others."""
        numbers = 2 if begin else 3
        ours = re.compile(rf"{re.escape(begin + self._name)}(-\d+){{{numbers}}}{re.escape(SUFFIX)}")
        folder = self._settings.root / f"v{VERSION}"
        return [path for path in folder.glob(f"kind=*/dt=*/hr=*/{begin}*{SUFFIX}") if ours.fullmatch(path.name)]

    # ---- files of an earlier process
    def _recover(self, path: Path) -> None:
        kind = path.parts[-4].removeprefix("kind=")
        dt, hour = path.parts[-3].removeprefix("dt="), int(path.parts[-2].removeprefix("hr="))
        boot, first = (int(part) for part in path.name.removesuffix(SUFFIX).rsplit("-", 2)[1:])
        whole = _Open(path.with_name(f"{PARTIAL}{self._name}{SUFFIX}"), 0, first)
        try:
            for lines in _readable(path):
                batch = Batch(kind, 0, first, lines.count(b"\n"), lines)
                whole.append(whole.pack(lines), batch)
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
    """Sort key, oldest file first: by start of the process, hour and sequence number."""
    boot, first, _ = path.name.removesuffix(SUFFIX).rsplit("-", 3)[1:]
    return int(boot), path.parts[-3], path.parts[-2], int(first)


def _size(path: Path) -> int | None:
    """None for a file that no longer exists."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _readable(path: Path) -> Iterator[bytes]:
    """The complete lines of a file whose end may be missing or damaged, in chunks."""
    unzip = zlib.decompressobj(zlib.MAX_WBITS | 16)
    rest, damaged = b"", False
    with path.open("rb") as file:
        while not damaged and (chunk := file.read(READ_BYTES)):
            data, damaged = _inflate(unzip, chunk)
            data = rest + data
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            if end:
                yield data[:end]


def _inflate(unzip: Any, chunk: bytes) -> tuple[bytes, bool]:
    """The decompressed content of a chunk as far as it is readable, and whether it is damaged."""
    before = unzip.copy()
    try:
        return unzip.decompress(chunk), False
    except zlib.error:  # it also discards the output before the error: repeat byte by byte
        found = bytearray()
        for octet in chunk:
            try:
                found += before.decompress(bytes((octet,)))
            except zlib.error:
                break
        return bytes(found), True
