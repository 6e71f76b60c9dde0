"""The Spark session that the job runs in."""

from __future__ import annotations

import shutil
from collections.abc import Container, Mapping
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from waymesh_analytics.errors import AnalyticsError

JAVA_OPTIONS = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",  # PySpark sets it to warnings otherwise, whatever the file says
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # We have more groups than its first map holds: to look in both costs a sixth more.
    "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
    # Many small files: reading one costs little beside starting a task.
    "spark.sql.files.openCostInBytes": str(64 << 10),
    # The hour is text that looks like a moment.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
LITTLE = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""For little data: to plan and compile a query costs more there than to run it."""
LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""For a master in the same process: nobody else has to reach it."""


S3A = "s3a://"


def need_s3a() -> None:
    """Raises AnalyticsError where PySpark has not been given the jars for s3a:// addresses."""
    if not list(Path(pyspark.__path__[0]).glob("jars/hadoop-aws-*.jar")):
        raise AnalyticsError("s3a:// needs jars that PySpark does not bring: `make analytics-bucket` adds them")


def open_session(
    master: str = "local[*]", extra: Mapping[str, str] | None = None, java_options: str = ""
) -> SparkSession:
    """A session with our settings; `extra` ones go last. Raises AnalyticsError without a Java."""
    if shutil.which("java") is None:
        raise AnalyticsError("Spark needs Java 17 or later: no `java` in the PATH (Debian: openjdk-17-jre-headless)")
    builder = SparkSession.builder.appName("waymesh-analytics")
    if master:  # else whoever submits the job has chosen
        builder = builder.master(master)
    local = LOCAL if master.startswith("local") else {}
    java = {"spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {java_options}"}
    for name, value in {**SETTINGS, **java, **local, **(extra or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def little(session: SparkSession, given: Container[str] = ()) -> SparkSession:
    """A session of the same Spark that works best with little data; settings in `given` stay as they are."""
    made = session.newSession()
    for name, value in LITTLE.items():
        if name not in given:
            made.conf.set(name, value)
    return made
