"""Runs the whole job in a new Spark session."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from .log import Log
from .options import STORE, Options
from .out import require_writable
from .spark.cores import bounded_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .report.report import Report


def run(options: Options, log: Log = lambda text: None, opened: Callable[[], object] = lambda: None) -> Report:
    """Analyze. `opened` is called when Spark has started. Raises AnalyticsError, StoreBusy; ModuleNotFoundError for a
    missing package."""
    started = time.monotonic()
    require_writable(options.out)
    master, bounded = bounded_master(options.master)
    options = replace(options, master=master)
    log(f"starting Spark on {master}")  # first: the next steps take seconds
    if bounded:
        log(bounded)
    from .spark.failures import translate_errors

    # Importing the job's modules takes Python a second, starting takes Java two: do both in parallel.
    with ThreadPoolExecutor(1) as background:
        loading = background.submit(_load)
        spark = _open(options)
    opened()
    try:
        log(f"Spark {spark.version} started after {time.monotonic() - started:.1f} s")
        with translate_errors():
            report = loading.result()(spark, options, log)
        log(f"written to {options.out} after {time.monotonic() - started:.1f} s")
        return report
    finally:
        spark.stop()


def _load() -> Callable[[SparkSession, Options, Log], Report]:
    import waymesh_analytics.report.terminal  # noqa: F401  the command shows the report by it
    from waymesh_analytics.pipeline import analyze

    return analyze


def _open(options: Options) -> SparkSession:
    from .spark import session
    from .spark.java_options import java_options
    from .store.catalog import FOLDER

    if any(path.startswith(session.S3A) for path in (options.source, options.out)) and "spark.jars" not in options.conf:
        session.require_s3a_jars()
    commits = f"{options.out}/{STORE}/{FOLDER}"
    return session.open_session(options.master, options.conf, java_options(options.source, commits))
