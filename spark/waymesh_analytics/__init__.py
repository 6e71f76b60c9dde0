"""What the routers of a mesh exported, worked up by PySpark into tables and a report.

`run(Options(source, out))` does it all, `waymesh analyze` is its command. Exported lines become curated Parquet files,
these hourly rollups, and from the rollups comes every number of the report. Spark and matplotlib are imported when it
runs: the package itself can be imported without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import AnalyticsError
from .options import Options

if TYPE_CHECKING:
    from waymesh_analytics.report.report import Report

    from .pipeline import run

__all__ = ["AnalyticsError", "Options", "Report", "run"]


def __getattr__(name: str) -> object:
    if name == "run":
        from .pipeline import run

        return run
    if name == "Report":
        from waymesh_analytics.report.report import Report

        return Report
    raise AttributeError(name)
