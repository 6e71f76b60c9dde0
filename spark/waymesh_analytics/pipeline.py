"""The work of the job: find the exported files, bring the store up to date, apply the retention, write the report."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from pyspark.sql import SparkSession

from waymesh_analytics.report.output import write_report
from waymesh_analytics.report.report import Report, build_report
from waymesh_analytics.rollups.compaction import compact
from waymesh_analytics.rollups.damage import set_aside_damaged
from waymesh_analytics.rollups.reader import Rollups
from waymesh_analytics.rollups.streaming import stream
from waymesh_analytics.store.local_storage import address_of
from waymesh_analytics.store.raw_files import Listing, find_files
from waymesh_analytics.store.retention import retain
from waymesh_analytics.store.storage import open_storage
from waymesh_analytics.store.store import Store

from .errors import AnalyticsError
from .hours import Window, window
from .log import Log
from .options import STORE, Options


def analyze(spark: SparkSession, options: Options, log: Log) -> Report:
    """Bring the store up to date and write the report to `options.out`. Raises AnalyticsError, StoreBusy."""
    now = datetime.now(UTC)
    limits = window(options.begin, options.end)
    source, out = _address(options.source), _address(options.out)
    if not open_storage(spark, source).exists(""):
        raise AnalyticsError(f"no such folder: {source}")
    with Store.write(spark, f"{out}/{STORE}", log, options.conf) as store:
        if options.streaming:
            listing = stream(store, source, log)
        else:
            listing = find_files(spark, [source])
            compact(store, listing, log)
        retain(store.catalog, listing, options.retention, now, partial(_remove, spark), log)
        try:
            report = _report(store, limits, listing, now, log)
        except Exception:  # of whatever a damaged file makes Spark or a table raise; without one it is raised again
            if not set_aside_damaged(store, limits, log):
                raise
            compact(store, listing, log)
            report = _report(store, limits, listing, now, log)
        write_report(open_storage(spark, out), report)
    return report


def _report(store: Store, limits: Window, listing: Listing, now: datetime, log: Log) -> Report:
    rollups = Rollups(store, limits)
    log(f"report: {len(rollups.hours)} hours")
    return build_report(rollups, store.manifest, listing, now)


def _remove(spark: SparkSession, path: str) -> None:
    folder, _, name = path.rpartition("/")
    open_storage(spark, folder).delete(name)


def _address(path: str) -> str:
    """A local path as a file:// address, which does not depend on Spark's default file system."""
    return path if "://" in path else address_of(path)
