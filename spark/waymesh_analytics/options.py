"""What a run is asked for. No Spark, so that the command line can be read without it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Retention:
    """Days; 0: for ever. `raw`: the exported files themselves, which are only removed when that is asked for."""

    raw: float = 0
    curated: float = 30
    rollups: float = 400


@dataclass(frozen=True, slots=True)
class Options:
    """`source`: the folder (or s3a:// address) that holds v1/; `out`: where store and report go. `begin`, `end`: the
    report's window, whole hours of it. `streaming`: let Structured Streaming find the files."""

    source: str
    out: str
    begin: datetime | None = None
    end: datetime | None = None
    master: str = "local[*]"
    streaming: bool = False
    retention: Retention = field(default_factory=Retention)
    conf: dict[str, str] = field(default_factory=dict)


def s3a_settings(endpoint: str) -> dict[str, str]:
    """Settings of Spark for an S3 server that is not Amazon's. Credentials are found as Amazon's tools find them:
    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and others."""
    return {
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
