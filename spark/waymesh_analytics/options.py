"""The options of a run; without Spark, so that the command line can be parsed without it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

STORE = "store"
"""The folder of the store in the output folder."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How many days data is kept; 0: without limit."""

    # The exported files, which are removed only on request.
    raw: float = 0
    curated: float = 30
    rollups: float = 400


@dataclass(frozen=True, slots=True)
class Options:
    """What to analyze, and how."""

    # The folder or s3a:// address that contains v1/.
    source: str
    # Where the store and the report are written.
    out: str
    # The window of the report, extended to whole hours.
    begin: datetime | None = None
    end: datetime | None = None
    master: str = "local[*]"
    # Find new files by Structured Streaming.
    streaming: bool = False
    retention: Retention = field(default_factory=Retention)
    # Spark settings.
    conf: dict[str, str] = field(default_factory=dict)


def s3a_settings(endpoint: str) -> dict[str, str]:
    """Spark settings for an S3 server other than AWS. Credentials are found as by AWS tools: AWS_ACCESS_KEY_ID etc."""
    return {
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
