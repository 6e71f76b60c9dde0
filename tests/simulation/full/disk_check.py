"""Whether a disk has all records that a router made, apart from those that it counted as lost or died with."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from pathlib import Path

from tests.simulation.full.disk import Disk
from waymesh_router.runtime.spool.files import _readable
from waymesh_schema.telemetry import KINDS, PARTIAL, FileName, parse_path

Numbers = dict[tuple[int, str], list[int]]
"""Sequence numbers of records by boot and kind."""


def faults(disk: Disk) -> list[str]:
    """What is wrong with the files of a router whose spool has written all, or that has crashed."""
    finished, unfinished, found = _read(disk.folder)
    missing: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    for life in disk.lives:
        for kind in KINDS:
            numbers = finished.get((life.boot, kind), [])
            if len(numbers) != len(set(numbers)):
                found.append(f"{kind} of {life.boot}: records stand in two files")
            there = {*numbers, *unfinished.get((life.boot, kind), [])}
            made = life.counter.seqs[kind]
            if there and not 1 <= min(there) <= max(there) <= made:
                found.append(f"{kind} of {life.boot}: records from {min(there)} to {max(there)}, {made} were made")
            missing[kind] += made - len(there)
            missing[kind] -= life.unwritten[kind]
        for (kind, _), count in life.counter.dropped.items():
            counted[kind] += count
    if disk.missing_lines:
        found.append(f"log: {disk.missing_lines} more lines are missing than were counted")
    crashed = any(life.crashed for life in disk.lives)
    for kind in KINDS:
        # with a crash, the records of the last write may be on the disk all the same, and a loss may be counted that
        # was not carried out
        if missing[kind] > counted[kind] or (missing[kind] < counted[kind] and not crashed):
            found.append(f"{kind}: {missing[kind]} records are missing, {counted[kind]} are counted as lost")
    return found


def _read(folder: Path) -> tuple[Numbers, Numbers, list[str]]:
    """Records of finished and of unfinished files, and what is wrong with these files."""
    finished: Numbers = {}
    unfinished: Numbers = {}
    found: list[str] = []
    for path in sorted(folder.rglob("*.gz")):
        name = parse_path(path.relative_to(folder).as_posix())
        if name is not None:
            numbers = _numbers(path, name, found)
            finished.setdefault((name.boot, name.kind), []).extend(numbers)
        elif path.name.startswith(PARTIAL) and len(path.name.rsplit("-", 2)) == 3:
            boot = path.name.rsplit("-", 2)[1]
            kind = path.parts[-4].removeprefix("kind=")
            if boot.isdigit():
                lines = b"".join(_readable(path)).splitlines()
                unfinished.setdefault((int(boot), kind), []).extend(json.loads(line)["seq"] for line in lines)
    return finished, unfinished, found


def _numbers(path: Path, name: FileName, found: list[str]) -> list[int]:
    """Of a finished file, which must be what its name says."""
    try:
        with gzip.open(path, "rt") as file:
            numbers = [json.loads(line)["seq"] for line in file]
    except (OSError, EOFError, ValueError, zlib.error) as error:
        found.append(f"{name.path}: {error}")
        return []
    if numbers != list(range(name.first, name.first + name.count)):
        found.append(f"{name.path} has records {numbers[:3]} …")
    return numbers
