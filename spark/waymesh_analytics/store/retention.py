"""Retention: ages are counted back from the newest known hour, not from today, so a report on old files stays the same.

Hours in the future are ignored, so a router with a fast clock causes no removal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from waymesh_analytics.hours import add_hours, hour_text
from waymesh_analytics.log import Log
from waymesh_analytics.options import Retention

from .catalog import Catalog, folder_of

if TYPE_CHECKING:
    from .raw_files import Listing


def retain(
    catalog: Catalog, listing: Listing, retention: Retention, now: datetime, remove: Callable[[str], None], log: Log
) -> None:
    """Remove what is older than `retention` allows.

    Exported files are removed (by `remove`) only after their hour is committed as sealed: it is not processed again
    then, and later files for it do not replace the results made from the removed ones.
    """
    manifest = catalog.manifest
    known = [hour for hours in manifest.hours.values() for hour in hours if hour <= hour_text(now)]
    if not known:
        return
    newest = max(known)

    def before(days: float) -> str:
        return add_hours(newest, -24 * days) if days else ""

    former = {kind: dict(hours) for kind, hours in manifest.hours.items()}
    paths = manifest.paths()
    expired = _seal(catalog, listing, before(retention.raw))
    for hours in manifest.hours.values():
        for hour, entry in list(hours.items()):
            if hour < before(retention.rollups):
                hours[hour] = replace(entry, curated=(), rollups={}, sealed=True)
            elif hour < before(retention.curated):
                hours[hour] = replace(entry, curated=())
    if manifest.hours != former:
        catalog.commit(folder_of(path) for path in paths - manifest.paths())
        catalog.remove_superseded()
    for path in expired:
        remove(path)
    if expired:
        log(f"retention: {len(expired)} exported files removed")


def _seal(catalog: Catalog, listing: Listing, before: str) -> list[str]:
    """Seal the hours before `before`; returns the paths of their exported files."""
    found = []
    for kind, hours in listing.files.items():
        committed = catalog.manifest.of(kind)
        for hour, files in hours.items():
            if hour < before and hour in committed:
                committed[hour] = replace(committed[hour], sealed=True)
                found += [file.path for file in files]
    return found
