"""One query: the store is opened for reading, the tables that the text names become views, the result is Arrow."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from waymesh_analytics.errors import AnalyticsError
from waymesh_analytics.options import STORE
from waymesh_analytics.spark.failures import translate_errors
from waymesh_analytics.spark.java_options import java_options
from waymesh_analytics.spark.session import S3A, open_session, require_s3a_jars
from waymesh_analytics.store.local_storage import address_of
from waymesh_analytics.store.manifest import Manifest
from waymesh_analytics.store.storage import Storage
from waymesh_analytics.store.store import Store

from .tables import QueryTable, query_tables
from .versions import manifest_as_of

SMALL_RECORDS = 4_000_000
"""Up to this many records, compiling a query costs more than it saves."""
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
_NO_TABLE = "TABLE_OR_VIEW_NOT_FOUND"


@dataclass(frozen=True, slots=True)
class Query:
    """A query and its store."""

    sql: str
    # The folder or s3a:// address of `waymesh analyze --out`.
    folder: str
    # A version of the store or a time; "": the newest version.
    as_of: str = ""
    master: str = "local[*]"
    # Spark settings.
    conf: Mapping[str, str] = field(default_factory=dict)


def run_query(query: Query, opened: Callable[[], object] = lambda: None) -> pa.Table:
    """Return the result of a query, run in a new Spark session; it must fit in memory. `opened` is called when Spark
    has started. Raises AnalyticsError."""
    root = f"{query.folder.rstrip('/')}/{STORE}"
    if "://" not in root:
        if not Path(root).is_dir():
            raise AnalyticsError(f"{query.folder} has no store: run `waymesh analyze PATH --out {query.folder}` first")
    elif root.startswith(S3A) and "spark.jars" not in query.conf:
        require_s3a_jars()
    spark = open_session(query.master, query.conf, java_options(f"{root}/curated", create_archive=False))
    opened()
    try:
        return answer(spark, query)
    finally:
        spark.stop()


def answer(spark: SparkSession, query: Query) -> pa.Table:
    """The result of a query. Raises AnalyticsError."""
    folder = query.folder.rstrip("/")
    root = folder if "://" in folder else address_of(folder)
    with translate_errors():
        store = Store.open(spark, f"{root}/{STORE}", query.conf)
        if not store.storage.exists(""):
            raise AnalyticsError(f"{query.folder} has no store: run `waymesh analyze PATH --out {query.folder}` first")
        manifest = manifest_as_of(store.storage, query.as_of) if query.as_of else store.manifest
    named = {word.lower() for word in re.findall(r"\w+", query.sql)}
    tables = [table for name, table in query_tables().items() if name in named]
    session = _session(store, manifest)
    with _errors_of_queries(), translate_errors():
        _require_query(session, query.sql)
        for table in tables:
            _view(store.storage, session, table, manifest, query.as_of)
        return session.sql(query.sql).toArrow()


def _session(store: Store, manifest: Manifest) -> SparkSession:
    rows = sum(entry.rows for hours in manifest.hours.values() for entry in hours.values())
    session = store.small.spark if rows <= SMALL_RECORDS else store.storage.spark.newSession()
    session.conf.set("spark.sql.runSQLOnFiles", "false")  # only the tables of the store
    session.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    return session


def _require_query(session: SparkSession, sql: str) -> None:
    """Raises AnalyticsError unless the text is a query: within parentheses, SQL allows nothing else."""
    parser: Any = session._jsparkSession.sessionState().sqlParser()
    plan = parser.parsePlan(sql)
    try:
        parser.parsePlan(f"SELECT * FROM (\n{sql.rstrip().rstrip(';')}\n)")
        query = not is_instance_of(session.sparkContext._gateway, plan, _COMMAND)
    except ParseException:
        query = False
    if not query:
        raise AnalyticsError("only queries (SELECT, WITH, VALUES) are accepted: the store is never changed")


def _view(storage: Storage, session: SparkSession, table: QueryTable, manifest: Manifest, as_of: str) -> None:
    schema, paths = from_arrow_schema(table.schema), table.paths(manifest)
    if as_of and (gone := [path for path in paths if not storage.exists(path)]):
        raise AnalyticsError(
            f"--as-of {as_of}: {len(gone)} files of table {table.name} were replaced or expired since; the first is "
            f"{gone[0]}"
        )
    frame: DataFrame
    if paths:
        frame = session.read.schema(schema).parquet(*map(storage.full, paths))
    else:
        frame = session.createDataFrame([], schema)
    frame.createOrReplaceTempView(table.name)


@contextmanager
def _errors_of_queries() -> Iterator[None]:
    """Raise AnalyticsError with Spark's message for a query that cannot be parsed, resolved or run."""
    # PySpark logs each error with its stack, in addition to raising it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        yield
    except PySparkException as error:
        raise AnalyticsError(_words(error)) from error
    except Py4JJavaError as error:
        raise AnalyticsError(str(error.java_exception.toString()).splitlines()[0]) from error


def _words(error: PySparkException) -> str:
    text = str(error).partition("\n\nJVM stacktrace:")[0].partition(";\n'")[0].partition("SQLSTATE:")[0].strip()
    if isinstance(error, AnalysisException) and error.getCondition() == _NO_TABLE:
        name = error.getMessageParameters().get("relationName", "")
        return f"no table {name}; there are {', '.join(sorted(query_tables()))} (docs/tables.md)"
    return text
