"""An opened store: its files and its catalog."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from waymesh_analytics.log import Log
from waymesh_analytics.spark.session import small_data_session

from .catalog import Catalog
from .manifest import Manifest
from .storage import Storage, open_storage


@dataclass(frozen=True, slots=True)
class Store:
    """Open one with `open` or `write`."""

    storage: Storage
    # The same folder, used through a Spark session that is tuned for small data.
    small: Storage
    catalog: Catalog

    @property
    def manifest(self) -> Manifest:
        """The manifest that is valid now."""
        return self.catalog.manifest

    @classmethod
    def open(cls, spark: SparkSession, root: str, given: Container[str] = ()) -> Store:
        """Open the store in a folder for reading; it is empty if the folder does not exist.

        `given`: names of Spark settings that the user chose. Raises AnalyticsError.
        """
        storage = open_storage(spark, root)
        return cls(storage, open_storage(small_data_session(spark, given), root), Catalog.read(storage))

    @classmethod
    @contextmanager
    def write(cls, spark: SparkSession, root: str, log: Log, given: Container[str] = ()) -> Iterator[Store]:
        """Open the store for writing until the block ends. Raises AnalyticsError, StoreBusy."""
        storage = open_storage(spark, root)
        with Catalog.write(storage, log) as catalog:
            yield cls(storage, open_storage(small_data_session(spark, given), root), catalog)
