"""`waymesh analyze` and `python -m waymesh_analytics`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from waymesh_analytics.errors import AnalyticsError, StoreBusy
from waymesh_analytics.hours import parse_time
from waymesh_analytics.options import Options, Retention, s3a_settings

INSTALL = (
    "waymesh analyze needs PySpark and matplotlib: `make analytics` in a checkout, or pip install 'waymesh[analytics]'"
)


def parser() -> argparse.ArgumentParser:
    """The options."""
    kept = Retention()
    made = argparse.ArgumentParser(
        prog="waymesh analyze",
        description="Read what routers exported, and report: traffic, latency, outcomes, faults, what is missing. What "
        "was read once is kept in OUT/store, so that the next run only reads new files.",
        epilog="Exit codes: 0 done; 1 could not be done; 2 wrong options; 3 with --strict: records are missing; "
        "4: another run writes OUT/store.",
    )
    made.add_argument("path", metavar="PATH", help="folder (or s3a:// address) that holds v1/")
    made.add_argument("--out", required=True, metavar="DIR", help="where report and store go")
    made.add_argument("--from", dest="begin", metavar="TIME", help="report from this hour on (2026-01-31T05:00, UTC)")
    made.add_argument("--to", dest="end", metavar="TIME", help="report up to this moment")
    made.add_argument("--master", default="local[*]", help="Spark master (default: %(default)s)")
    made.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="Spark setting; may be given often"
    )
    made.add_argument("--endpoint", metavar="URL", help="of s3a:// addresses, where that is not AWS: http://minio:9000")
    made.add_argument("--streaming", action="store_true", help="find new files by Structured Streaming (availableNow)")
    made.add_argument(
        "--keep-raw",
        type=float,
        default=kept.raw,
        metavar="DAYS",
        help="REMOVE exported files that are older, once read; 0 (default): never",
    )
    made.add_argument("--keep-curated", type=float, default=kept.curated, metavar="DAYS", help="default: %(default)s")
    made.add_argument("--keep-rollups", type=float, default=kept.rollups, metavar="DAYS", help="default: %(default)s")
    made.add_argument(
        "--strict", action="store_true", help="exit code 3 when records are missing or lines were corrupt"
    )
    made.add_argument("--quiet", action="store_true", help="no progress and no summary")
    return made


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    asked = parser().parse_args(words)
    try:
        from waymesh_analytics.pipeline import run
    except ModuleNotFoundError as error:
        print(f"waymesh analyze: {error}\n{INSTALL}", file=sys.stderr)
        return 1
    try:
        conf = (s3a_settings(asked.endpoint) if asked.endpoint else {}) | dict(_pair(text) for text in asked.conf)
        begin, end = (parse_time(text) if text else None for text in (asked.begin, asked.end))
        retention = Retention(asked.keep_raw, asked.keep_curated, asked.keep_rollups)
        options = Options(asked.path, asked.out, begin, end, asked.master, asked.streaming, retention, conf)
        report = run(options, _silent if asked.quiet else _tell)
    except AnalyticsError as error:
        print(f"waymesh analyze: {error}", file=sys.stderr)
        return 4 if isinstance(error, StoreBusy) else 1
    if not asked.quiet:
        from rich.console import Console

        from waymesh_analytics.report.terminal import show

        show(report, Console())
    return 3 if asked.strict and report.incomplete else 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise AnalyticsError(f"--conf {text}: not NAME=VALUE")
    return name, value


def _tell(text: str) -> None:
    print(f"analyze: {text}", file=sys.stderr, flush=True)


def _silent(text: str) -> None:
    pass
