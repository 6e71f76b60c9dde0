"""Errors of file systems and networks as AnalyticsError with a one-line text."""

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
"""Spark's error condition."""


@contextmanager
def translate_errors(path: str = "") -> Iterator[None]:
    """Raise AnalyticsError for I/O errors of Java and Spark; other errors are bugs of this program and pass unchanged.

    `path` begins the text, if given.
    """
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        reason = _reason(error)
        if reason is None:
            raise
        raise AnalyticsError(f"{path}: {reason}" if path else reason) from error


def _reason(error: Py4JJavaError | PySparkException) -> str | None:
    """The first line of the outermost Java I/O error in the chain of causes."""
    if is_path_not_found(error):
        return f"no such file or folder: {error.getMessageParameters().get('path')}"
    cause: Any = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    while cause is not None:
        if is_instance_of(SparkContext._gateway, cause, "java.io.IOException"):
            return str(cause.toString()).splitlines()[0]
        cause = cause.getCause()
    return None


def is_path_not_found(error: Exception) -> bool:
    """Whether Spark was given a path that does not exist."""
    return isinstance(error, AnalysisException) and error.getCondition() == NO_PATH
