"""The PySpark job that turns the telemetry of the routers into tables and a report.

`run(Options(source, out))` does everything; its command is `waymesh analyze`. Exported lines become curated Parquet
files, these become hourly rollups, and the report is computed from the rollups. Spark and matplotlib are imported only
when the job runs: the package can be imported without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import AnalyticsError
from .launch import run
from .options import Options

if TYPE_CHECKING:
    from waymesh_analytics.report.report import Report

__all__ = ["AnalyticsError", "Options", "Report", "run"]


def __getattr__(name: str) -> object:
    if name == "Report":
        from waymesh_analytics.report.report import Report

        return Report
    raise AttributeError(name)
