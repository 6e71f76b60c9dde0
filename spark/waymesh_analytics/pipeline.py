"""The whole job: find files, work them up, keep what is to be kept, report."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from waymesh_analytics.report.output import write_report
from waymesh_analytics.report.report import Report, make_report
from waymesh_analytics.rollups.compaction import Store, advance
from waymesh_analytics.rollups.reader import Rollups
from waymesh_analytics.rollups.streaming import stream
from waymesh_analytics.spark.failures import told_plainly
from waymesh_analytics.spark.java_options import java_options
from waymesh_analytics.spark.session import S3A, need_s3a, open_session
from waymesh_analytics.store.catalog import FOLDER
from waymesh_analytics.store.claim import Say
from waymesh_analytics.store.raw_files import find_files
from waymesh_analytics.store.retention import retain
from waymesh_analytics.store.storage import Storage

from .errors import AnalyticsError
from .hours import window
from .options import Options

STORE = "store"


def analyze(spark: SparkSession, options: Options, say: Say) -> Report:
    """Bring the store up to date, write the report into `options.out`. Raises AnalyticsError; StoreBusy while another
    run does."""
    limits = window(options.begin, options.end)
    source, out = _address(options.source), _address(options.out)
    if not Storage(spark, source).exists(""):
        raise AnalyticsError(f"no such folder: {source}")
    with Store.write(spark, f"{out}/{STORE}", say, options.conf) as store:
        if options.streaming:
            listing = stream(store, source, say)
        else:
            listing = find_files(spark, [source])
            advance(store, listing, say)
        retain(store.catalog, listing, options.retention, datetime.now(UTC), partial(_remove, spark), say)
        rollups = Rollups(store, limits)
        say(f"report: {len(rollups.hours)} hours")
        report = make_report(rollups, store.manifest, listing)
        write_report(Storage(spark, out), report)
    return report


def _remove(spark: SparkSession, path: str) -> None:
    folder, _, name = path.rpartition("/")
    Storage(spark, folder).delete(name)


def run(options: Options, say: Say = lambda text: None) -> Report:
    """Open a Spark session, analyze, write the report into `options.out`. Raises AnalyticsError."""
    started = time.monotonic()
    if any(place.startswith(S3A) for place in (options.source, options.out)) and "spark.jars" not in options.conf:
        need_s3a()
    commits = f"{options.out}/{STORE}/{FOLDER}"
    spark = open_session(options.master, options.conf, java_options(options.source, commits))
    say(f"spark {spark.version} at {options.master}, {time.monotonic() - started:.1f} s")
    try:
        with told_plainly():
            report = analyze(spark, options, say)
        say(f"written to {options.out}, {time.monotonic() - started:.1f} s")
        return report
    finally:
        spark.stop()


def _address(place: str) -> str:
    """A local path as an absolute address, so that it means the same whatever Spark's default file system is."""
    return place if "://" in place else Path(place).resolve().as_uri()
