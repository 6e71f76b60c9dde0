"""The same processing by Structured Streaming: Spark's file source and its checkpoint find the new files.

Each micro-batch processes the hours that its files belong to, with the functions of a batch run and under the same
manifest. A batch that is repeated after a failure therefore changes nothing.
"""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame

from waymesh_analytics.errors import AnalyticsError
from waymesh_analytics.hours import hour_of
from waymesh_analytics.log import Log
from waymesh_analytics.store.raw_files import LISTED, Listing, find_files
from waymesh_analytics.store.store import Store
from waymesh_schema.telemetry import SUFFIX, parse_path

from .compaction import compact

FILES_PER_BATCH = 5000


def stream(store: Store, source: str, log: Log) -> Listing:
    """Process all files that the checkpoint does not know, then stop (trigger availableNow); returns the listing used.

    The listing is taken after Spark's own, so it contains every file of that one. Files that arrived in between are
    processed at the end: the checkpoint counts every listed file as read.
    """
    spark = store.storage.spark
    reader = spark.readStream.format("binaryFile").schema(LISTED).option("recursiveFileLookup", True)
    files = reader.option("pathGlobFilter", f"*{SUFFIX}").option("maxFilesPerTrigger", FILES_PER_BATCH).load(source)

    listings: list[Listing] = []
    failures: list[Exception] = []

    def listing() -> Listing:
        if not listings:
            listings.append(find_files(spark, [source]))
        return listings[0]

    def process(batch: DataFrame, number: int) -> None:
        names = [parse_path(row["path"]) for row in batch.select("path").distinct().collect()]
        hours = {(name.kind, hour_of(name.dt, name.hr)) for name in names if name is not None}
        log(f"micro-batch {number}: {len(names)} files of {len(hours)} hours")
        try:
            compact(store, listing().only(hours), log)
        except (AnalyticsError, Py4JJavaError, PySparkException) as error:
            failures.append(error)  # Spark would pass on only its text
            raise

    writer = files.select("path").writeStream.foreachBatch(process).trigger(availableNow=True)
    query = writer.option("checkpointLocation", store.storage.full("checkpoint")).start()
    try:
        query.awaitTermination()
    except StreamingQueryException:
        if failures:
            raise failures[0] from None
        raise
    compact(store, listing(), log)
    return listing()
