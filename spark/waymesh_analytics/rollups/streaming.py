"""The same by Structured Streaming: Spark's file source, with its checkpoint, tells which files are new.

Each micro-batch works up the hours that its files belong to, by the same functions as a batch run and under the same
manifest; so a batch that is repeated after a failure changes nothing.
"""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame

from waymesh_analytics.errors import AnalyticsError
from waymesh_analytics.hours import hour_of
from waymesh_analytics.store.claim import Say
from waymesh_analytics.store.raw_files import LISTED, Listing, find_files
from waymesh_schema.telemetry import SUFFIX, parse_path

from .compaction import Store, advance

FILES_PER_BATCH = 5000


def stream(store: Store, source: str, say: Say) -> Listing:
    """Work up all files that the checkpoint of the store does not know, then stop (trigger availableNow). Returns the
    listing that all micro-batches were worked up by. It is younger than Spark's, so that it holds every file of that;
    what came in between is worked up at the end, for a file that is listed counts as read to who comes after."""
    spark = store.storage.spark
    reader = spark.readStream.format("binaryFile").schema(LISTED).option("recursiveFileLookup", True)
    files = reader.option("pathGlobFilter", f"*{SUFFIX}").option("maxFilesPerTrigger", FILES_PER_BATCH).load(source)

    listings: list[Listing] = []
    failures: list[Exception] = []

    def listed() -> Listing:
        if not listings:
            listings.append(find_files(spark, [source]))
        return listings[0]

    def work(batch: DataFrame, number: int) -> None:
        names = [parse_path(row["path"]) for row in batch.select("path").distinct().collect()]
        fresh = {(name.kind, hour_of(name.dt, name.hr)) for name in names if name is not None}
        say(f"micro-batch {number}: {len(names)} files of {len(fresh)} hours")
        try:
            advance(store, listed().only(fresh), say)
        except (AnalyticsError, Py4JJavaError, PySparkException) as error:
            failures.append(error)  # of which Spark would hand on the text alone
            raise

    writer = files.select("path").writeStream.foreachBatch(work).trigger(availableNow=True)
    query = writer.option("checkpointLocation", store.storage.full("checkpoint")).start()
    try:
        query.awaitTermination()
    except StreamingQueryException:
        if failures:
            raise failures[0] from None
        raise
    advance(store, listed(), say)
    return listed()
