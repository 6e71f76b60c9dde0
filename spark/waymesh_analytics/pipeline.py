"""The whole job: find files, work them up, keep what is to be kept, report."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from .compaction import Say, Store, advance
from .failures import told_plainly
from .hours import window
from .manifest import MANIFEST
from .options import Options
from .output import write_report
from .reading import find_files
from .report import Report, make_report
from .retention import retain
from .rollup_store import Rollups
from .session import S3A, need_s3a, open_session
from .startup import java_options
from .storage import Storage
from .streaming import stream

STORE = "store"


def analyze(spark: SparkSession, options: Options, say: Say) -> Report:
    """Bring the store up to date and report. Raises AnalyticsError."""
    limits = window(options.begin, options.end)
    source, out = _address(options.source), _address(options.out)
    store = Store.open(spark, f"{out}/{STORE}", options.conf)
    if options.streaming:
        listing = stream(store, source, say)
    else:
        listing = find_files(spark, [source])
        advance(store, listing, say)
    retain(store, listing, options.retention, datetime.now(UTC), say)
    rollups = Rollups(store, limits)
    say(f"report: {len(rollups.hours)} hours")
    return make_report(rollups, store.manifest, listing)


def run(options: Options, say: Say = lambda text: None) -> Report:
    """Open a Spark session, analyze, write the report into `options.out`. Raises AnalyticsError."""
    started = time.monotonic()
    if any(place.startswith(S3A) for place in (options.source, options.out)) and "spark.jars" not in options.conf:
        need_s3a()
    manifest = f"{options.out}/{STORE}/{MANIFEST}"
    spark = open_session(options.master, options.conf, java_options(options.source, manifest))
    say(f"spark {spark.version} at {options.master}, {time.monotonic() - started:.1f} s")
    try:
        with told_plainly():
            report = analyze(spark, options, say)
            write_report(Storage(spark, _address(options.out)), report)
        say(f"written to {options.out}, {time.monotonic() - started:.1f} s")
        return report
    finally:
        spark.stop()


def _address(place: str) -> str:
    """A local path as an absolute address, so that it means the same whatever Spark's default file system is."""
    return place if "://" in place else Path(place).resolve().as_uri()
