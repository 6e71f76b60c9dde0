"""How long what is kept, reckoned back from the newest hour that is known, not from today: a report of old files stays
the same. Hours that have not come yet do not count: a router whose clock is ahead of time removes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from waymesh_analytics.hours import shifted, text_of
from waymesh_analytics.options import Retention

from .catalog import Catalog, folder_of
from .claim import Say

if TYPE_CHECKING:
    from .raw_files import Listing


def retain(
    catalog: Catalog, listing: Listing, retention: Retention, now: datetime, remove: Callable[[str], None], say: Say
) -> None:
    """Remove what is older. Raw files (by `remove`) go only when their hour is committed as sealed: it can't be done
    again then, and what comes later for it does not take the place of what was made of them."""
    manifest = catalog.manifest
    known = [hour for hours in manifest.hours.values() for hour in hours if hour <= text_of(now)]
    if not known:
        return
    newest = max(known)

    def before(days: float) -> str:
        return shifted(newest, -24 * days) if days else ""

    former = {kind: dict(hours) for kind, hours in manifest.hours.items()}
    paths = manifest.paths()
    raw = _seal(catalog, listing, before(retention.raw))
    for hours in manifest.hours.values():
        for hour, entry in list(hours.items()):
            if hour < before(retention.rollups):
                hours[hour] = replace(entry, curated="", rollups={}, sealed=True)
            elif hour < before(retention.curated):
                hours[hour] = replace(entry, curated="")
    if manifest.hours != former:
        catalog.commit(folder_of(path) for path in paths - manifest.paths())
        catalog.discard()
    for path in raw:
        remove(path)
    if raw:
        say(f"retention: {len(raw)} raw files removed")


def _seal(catalog: Catalog, listing: Listing, before: str) -> list[str]:
    """Seal old hours; returns their raw files."""
    found = []
    for kind, hours in listing.files.items():
        committed = catalog.manifest.of(kind)
        for hour, files in hours.items():
            if hour < before and hour in committed:
                committed[hour] = replace(committed[hour], sealed=True)
                found += [file.path for file in files]
    return found
