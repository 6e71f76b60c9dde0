"""What went wrong outside of us, in a sentence: a server that refuses, a disk that is full, a file that is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PySparkException

from waymesh_analytics.errors import AnalyticsError

NO_PATH = "PATH_NOT_FOUND"
"""Spark's word for it."""


@contextmanager
def told_plainly(doing: str = "") -> Iterator[None]:
    """AnalyticsError for what a file system or the network could not do; all else is a fault of ours, and passes."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        reason = _reason(error)
        if reason is None:
            raise
        raise AnalyticsError(f"{doing}: {reason}" if doing else reason) from error


def _reason(error: Py4JJavaError | PySparkException) -> str | None:
    """The first line of the outermost of Java's I/O errors in it."""
    if is_no_path(error):
        return f"no such file or folder: {error.getMessageParameters().get('path')}"
    cause: Any = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    while cause is not None:
        if is_instance_of(SparkContext._gateway, cause, "java.io.IOException"):
            return str(cause.toString()).splitlines()[0]
        cause = cause.getCause()
    return None


def is_no_path(error: Exception) -> bool:
    """Whether Spark was given a path where nothing is."""
    return isinstance(error, AnalysisException) and error.getCondition() == NO_PATH
