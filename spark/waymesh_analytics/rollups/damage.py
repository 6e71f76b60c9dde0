"""Damaged files of rollups: they are set aside like lines that are not records, and their hours are processed again.

Reading every file before each report would cost more than the report. So they are examined when one could not be made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from waymesh_analytics.hours import FIRST, Window, add_hours
from waymesh_analytics.log import Log
from waymesh_analytics.store.catalog import folder_of
from waymesh_analytics.store.manifest import Hour
from waymesh_analytics.store.schemas import HOUR, curated_schema
from waymesh_analytics.store.storage import Storage
from waymesh_analytics.store.store import Store

from .definitions import ROLLUPS, Rollup
from .reader import WEEK_HOURS

MISSING = "it does not exist"
_FAMILIES = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_timestamp,
    pa.types.is_nested,
)
"""Types of one of these are read as each other, as far as releases have changed them."""


def set_aside_damaged(store: Store, window: Window, log: Log) -> bool:
    """Set the damaged files of the rollups that the report on a window reads aside, and commit that their hours are to
    be processed again; whether there were any.

    An hour whose exported files are gone keeps what its other files have. Raises AnalyticsError if a file cannot be
    read for another reason than its content.
    """
    expected = {rollup.name: _schema(rollup) for rollup in ROLLUPS}
    superseded: set[str] = set()
    if window.first != FIRST:  # a report compares with the week before, and begins with the counters until then
        window = Window(add_hours(window.first, -2 * WEEK_HOURS), window.end)
    for kind, hours in store.manifest.hours.items():
        for hour, entry in list(hours.items()):
            if hour not in window:
                continue
            damaged = {
                path: reason
                for name, paths in entry.rollups.items()
                for path in paths
                if (reason := _damage(store.storage, path, expected[name]))
            }
            if not damaged:
                continue
            for path, reason in damaged.items():
                kept = "" if reason == MISSING else f"; it is kept as {_keep(store.storage, path)}"
                log(f"warning: {store.storage.full(path)} is damaged: {reason}{kept}")
            log(f"{kind}: {hour} is processed again from its exported files, if they still exist")
            hours[hour] = _without(entry, set(damaged))
            superseded |= {folder_of(path) for path in damaged} - {folder_of(path) for path in hours[hour].paths}
    if not superseded:
        return False
    store.catalog.commit(superseded)
    store.catalog.remove_superseded()
    return True


def _schema(rollup: Rollup) -> pa.Schema:
    kind = (rollup.kinds or ("router",))[0]
    none = curated_schema(kind).empty_table().append_column("kind", pa.array([], pa.string()))
    return rollup.build(none).schema


def _without(entry: Hour, damaged: set[str]) -> Hour:
    """The hour without damaged files. If its exported files were removed on request, no later one replaces it."""
    rollups = {name: tuple(path for path in paths if path not in damaged) for name, paths in entry.rollups.items()}
    rollups = {name: paths for name, paths in rollups.items() if paths}
    return replace(entry, rollups=rollups, fingerprint=entry.fingerprint if entry.sealed else "")


def _damage(storage: Storage, path: str, expected: pa.Schema) -> str:
    """Why a file cannot be used; empty: it can. Raises AnalyticsError if its octets cannot be read."""
    if not storage.exists(path):
        return MISSING
    content = storage.read_bytes(path)
    if not content:
        return "it is empty"
    try:
        found = pq.read_table(BytesIO(content))
    except (pa.ArrowException, OSError, ValueError) as error:
        return " ".join(str(error).split()).removesuffix(".")
    wrong = next(_misfits(found.schema, expected), "")
    return f"it has no column {HOUR}" if HOUR not in found.column_names else wrong


def _misfits(found: pa.Schema, expected: pa.Schema) -> Iterator[str]:
    """The columns of other types than a rollup has. Columns that an earlier release did not have may be missing."""
    for field in expected:
        if field.name in found.names:
            there = _plain(found.field(field.name).type)
            if not any(family(there) and family(_plain(field.type)) for family in _FAMILIES):
                yield f"its column {field.name} is of type {there}"


def _plain(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _keep(storage: Storage, path: str) -> str:
    kept = f"quarantine/{path}"
    storage.write_bytes(kept, storage.read_bytes(path))
    return storage.full(kept)
