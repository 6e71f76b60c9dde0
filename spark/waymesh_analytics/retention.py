"""How long what is kept, reckoned back from the newest hour that is known, not from today: a report of old files stays
the same. Hours that have not come yet do not count: a router whose clock is ahead of time removes nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from . import manifest as manifests
from .compaction import Say, Store, discard
from .hours import shifted, text_of
from .manifest import Manifest
from .options import Retention
from .reading import Listing
from .storage import Storage


def retain(store: Store, listing: Listing, retention: Retention, now: datetime, say: Say) -> None:
    """Remove what is older. Raw files go only when their hour is committed; it can't be done again then."""
    known = [hour for hours in store.manifest.hours.values() for hour in hours if hour <= text_of(now)]
    if not known:
        return
    newest = max(known)
    former = Manifest({kind: dict(hours) for kind, hours in store.manifest.hours.items()})

    def before(days: float) -> str:
        return shifted(newest, -24 * days) if days else ""

    removed = _remove_raw(store, listing, before(retention.raw))
    for hours in store.manifest.hours.values():
        for hour, entry in list(hours.items()):
            if hour < before(retention.rollups):
                hours[hour] = replace(entry, curated="", rollups={}, sealed=True)
            elif hour < before(retention.curated):
                hours[hour] = replace(entry, curated="")
    if removed:
        say(f"retention: {removed} raw files removed")
    if store.manifest.hours != former.hours:
        manifests.save(store.storage, store.manifest)
        discard(store.storage, former.paths() - store.manifest.paths())


def _remove_raw(store: Store, listing: Listing, before: str) -> int:
    """First the files, then the seal: if this is broken off, an hour has fewer files than it was made from, and is left
    as it is."""
    count = 0
    for kind, hours in listing.files.items():
        committed = store.manifest.of(kind)
        for hour, files in hours.items():
            if hour < before and hour in committed:
                for file in files:
                    folder, _, name = file.path.rpartition("/")
                    Storage(store.storage.spark, folder).delete(name)
                committed[hour] = replace(committed[hour], sealed=True)
                count += len(files)
    return count
