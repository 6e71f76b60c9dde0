"""`--as-of`: the manifest that was valid at a time, or the one with a name."""

from __future__ import annotations

from datetime import UTC, datetime

from waymesh_analytics.errors import AnalyticsError
from waymesh_analytics.hours import parse_time
from waymesh_analytics.store.catalog import FOLDER, versions
from waymesh_analytics.store.manifest import Manifest, from_text
from waymesh_analytics.store.storage import Storage


def manifest_as_of(storage: Storage, wanted: str) -> Manifest:
    """The manifest `wanted` (`00000003-00000012`), or the last one committed until the time `wanted`.

    Raises AnalyticsError if the store has none, and names those that it has.
    """
    names = versions(storage)
    if f"{wanted}.json" in names:
        return _read(storage, f"{wanted}.json")
    times = {name: storage.modified(f"{FOLDER}/{name}") for name in names}
    try:
        until = parse_time(wanted).timestamp()
    except AnalyticsError as error:
        raise AnalyticsError(f"--as-of {wanted}: no such version, and not a time; {_kept(times)}") from error
    earlier = [name for name in names if times[name] <= until]
    if not earlier:
        raise AnalyticsError(f"--as-of {wanted}: the store has no version of this time; {_kept(times)}")
    return _read(storage, earlier[-1])


def _read(storage: Storage, name: str) -> Manifest:
    try:
        return from_text(storage.read_text(f"{FOLDER}/{name}"))
    except (AnalyticsError, ValueError) as error:
        raise AnalyticsError(f"{storage.full(f'{FOLDER}/{name}')} cannot be read: {error}") from error


def _kept(times: dict[str, float]) -> str:
    found = [
        f"{name.removesuffix('.json')} ({datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%S.%f})"
        for name, time in times.items()
    ]
    return f"it has {', '.join(found)}"
