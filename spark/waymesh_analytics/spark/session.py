"""The Spark session of the job."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from waymesh_analytics.errors import AnalyticsError

JAVA_OPTIONS = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",  # otherwise PySpark sets WARN, whatever log4j2.properties says
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # There are more groups than the first-level map holds: looking into both costs a sixth more.
    "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
    # Many small files: opening one is cheap compared to starting a task.
    "spark.sql.files.openCostInBytes": str(64 << 10),
    # The hour is text that looks like a timestamp.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
SMALL_DATA = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    # With more groups, it would sort them with compiled code, despite factoryMode.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "20000",
}
"""For small data, where planning and compiling a query costs more than running it."""
LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""For a local master: nothing outside of the process connects to the driver."""
TASKS = "PYSPARK_PYTHON"
"""The environment variable with the Python that runs tasks."""


S3A = "s3a://"


def require_s3a_jars() -> None:
    """Raises AnalyticsError if PySpark has no jars for s3a:// addresses."""
    if not list(Path(pyspark.__path__[0]).glob("jars/hadoop-aws-*.jar")):
        raise AnalyticsError("s3a:// needs jars that are not part of PySpark: run `make analytics-bucket`")


def open_session(
    master: str = "local[*]", extra: Mapping[str, str] | None = None, java_options: str = ""
) -> SparkSession:
    """A session with the job's settings, overridden by `extra`. Raises AnalyticsError if Java is missing."""
    if shutil.which("java") is None:
        raise AnalyticsError("Spark needs Java 17 or later: no `java` found in PATH (Debian: openjdk-17-jre-headless)")
    builder = SparkSession.builder.appName("waymesh-analytics")
    if master:  # otherwise spark-submit sets it
        builder = builder.master(master)
    local = LOCAL if master.startswith("local") else {}
    if local:
        os.environ.setdefault(TASKS, sys.executable)  # so that tasks find the packages of this process
    java = {"spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {java_options}"}
    for name, value in {**SETTINGS, **java, **local, **(extra or {})}.items():
        builder = builder.config(name, value)
    # In the main thread, PySpark would set a handler of its own for SIGINT, which raises amid calls of Java.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(builder.getOrCreate).result()


def small_data_session(session: SparkSession, given: Container[str] = ()) -> SparkSession:
    """A session of the same Spark, tuned for small data; the settings named in `given` are not changed."""
    small = session.newSession()
    for name, value in SMALL_DATA.items():
        if name not in given:
            small.conf.set(name, value)
    return small
