"""The memory limit of the process, and the return of freed memory to the system."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path

LIMIT_FILES = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Limits of the control group, version 2 and version 1."""
TRIM_BYTES = 32 << 20
"""Memory is trimmed when the waiting bytes are below their maximum by this number, and below half of it."""
MANY_ENDED = 4096
"""Memory is trimmed when this number of links has ended: each had about 2 KiB, with its handle, name and address."""
GROWN_BYTES = 8 << 20
"""Memory is trimmed when connections have ended and the process is this much larger than after the last trim."""
MANY_CLOSED = 64
"""Memory is trimmed when this number of connections has ended since the last trim, and as many as there are …"""
FEW_CLOSED = 8
"""… and fewer than this in the last POLL_S, so that those of a crowd that goes cause one trim: behind the last one …"""
GROWN_LITTLE_BYTES = 2 << 20
"""… and the process is this much larger than after the last trim: clients that come and go do not make it grow, and a
trim can take 25 ms if the process has 450 MB."""
POLL_S = 1.0
CLEARINGS = 40
"""So often, each POLL_S, what Python keeps for itself is freed after a trim: from one time to the next, one of the
numbers that the router replaces leaves the blocks of what has ended. Decision 0109."""
BLOCK_BYTES = 1 << 20
"""What is free in Python's blocks must be measured again when the process is smaller by one of them."""
STATM_BYTES = 256
"""More than /proc/self/statm has."""


def memory_limit(files: tuple[Path, ...] = LIMIT_FILES) -> int:
    """Bytes that the process may use: the limit of its control group, at most the memory of the machine."""
    limit = control_group_limit(files)
    return _machine() if limit is None else limit


def control_group_limit(files: tuple[Path, ...] = LIMIT_FILES) -> int | None:
    """Bytes that the control group of the process may use; None without a limit below the memory of the machine."""
    for file in files:
        try:
            text = file.read_text().strip()
        except OSError:
            continue
        if text.isdigit():  # "max": no limit
            return int(text) if int(text) < _machine() else None
    return None


def resident_bytes() -> int:
    """Memory of the process (resident set)."""
    # Not as text: each time, Python would make names of attributes that stay in its cache, see `clear_caches`.
    descriptor = os.open("/proc/self/statm", os.O_RDONLY)
    try:
        return int(os.read(descriptor, STATM_BYTES).split()[1]) * os.sysconf("SC_PAGE_SIZE")
    finally:
        os.close(descriptor)


def clear_caches() -> None:
    """Free the small objects that Python keeps for itself, each of which keeps a block of 1 MiB. Decisions 0075, 0109.

    They are free tuples, up to 2,000 of each length, floats, lists and dicts, which only a full collection frees: it
    examines nothing here. The youngest objects are examined before: those in cycles would stay until the hourly one.
    And names in the cache of attributes: code in C that looks one up, such as `utcoffset` for the time of a log line,
    often makes a new string each time, and the cache has 4,096 places.
    """
    gc.collect(0)
    gc.freeze()
    gc.collect()
    gc.unfreeze()
    if sys.version_info < (3, 13):  # later ones keep only names of which there is one string
        sys._clear_type_cache()


def _machine() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class Trimmer:
    """Returns freed memory to the system: glibc keeps memory that was freed below a block in use until malloc_trim."""

    def __init__(
        self,
        trim: Callable[[int], object] | None = None,
        free: Callable[[], object] = lambda: None,
        clear: Callable[[], object] = clear_caches,
    ) -> None:
        """`trim`: called instead of the C library's malloc_trim, which some libraries do not have. `free`: called
        before it when links or connections have ended. `clear`: called CLEARINGS times after that, see
        `clear_caches`."""
        self._free = free
        self._clear = clear
        self._clearings = 0  # that are left
        self._cleared = 0  # bytes of the process when its free memory was measured
        self._trim = trim or getattr(ctypes.CDLL(None), "malloc_trim", None)
        self._most = 0
        self._links = self._connections = 0  # that had ended at the last trim
        self._seen = self._seen_connections = 0  # that had ended at the last call
        self._trimmed = False  # for many links, and not yet for those that ended after them
        self._resident = 0  # bytes after the last trim

    def ended(self, links: int, connections: int, resident: Callable[[], int], left: int = 0) -> bool:
        """Must be called every POLL_S. `links`, `connections`: how many have ended so far. `resident()`: memory of the
        process, in bytes. `left`: connections that there are. Returns whether memory was given back because of them."""
        used = resident()
        self._resident = self._resident or used
        growth = used - self._resident
        grown = connections > self._connections and growth >= GROWN_BYTES
        still, self._seen = links > self._seen, links
        last = self._trimmed and not still and links > self._links
        few = connections - self._seen_connections < FEW_CLOSED
        self._seen_connections = connections
        many = connections - self._connections >= max(MANY_CLOSED, left)
        gone = few and many and growth >= GROWN_LITTLE_BYTES
        if links - self._links < MANY_ENDED and not grown and not last and not gone:
            return self._cleared_again(used)
        self._trimmed = not last
        self._links, self._connections = links, connections
        self._free()
        if self._trim is not None:
            self._trim(0)
        self._resident = self._cleared = resident()
        self._clearings = CLEARINGS
        return True

    def _cleared_again(self, used: int) -> bool:
        """Does not change `_resident`, so that it causes no trim."""
        if not self._clearings:
            return False
        self._clearings -= 1
        self._clear()
        if self._cleared - used < BLOCK_BYTES:
            return False
        self._cleared = used
        return True

    def poll(self, waiting: int, most: int) -> None:
        """Must be called every POLL_S. `waiting`: bytes of messages that wait in the router now, `most`: their maximum
        since the last call."""
        self._most = max(self._most, most)
        if self._most - waiting >= TRIM_BYTES and waiting * 2 < self._most:
            self._most = waiting
            if self._trim is not None:
                self._trim(0)
