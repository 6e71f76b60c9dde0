"""`waymesh analyze` and `python -m waymesh_analytics`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from waymesh_analytics import launch
from waymesh_analytics.errors import AnalyticsError, StoreBusy
from waymesh_analytics.hours import parse_time
from waymesh_analytics.options import Options, Retention, s3a_settings
from waymesh_schema.findings import FoundKind, findings_message

from .interrupt import ends_on_interrupt

MOST_HOURS = 100_000
INTERRUPTED = "waymesh analyze: interrupted; {}/store has what was finished, and the next run continues"
INSTALL = (
    "waymesh analyze needs PySpark, matplotlib and Jinja: run `make analytics` in a checkout, or "
    "pip install 'waymesh[analytics]'"
)


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    default = Retention()
    parser = argparse.ArgumentParser(
        prog="waymesh analyze",
        description="Analyze the telemetry that routers exported: traffic, latency, outcomes, faults, missing records. "
        "OUT/store keeps what was read, so that the next run reads only new files.",
        epilog="Exit codes: 0 success; 1 failure; 2 invalid options; 3 with --strict: records are missing; "
        "4 another run is writing to OUT/store.",
    )
    add = parser.add_argument
    add("path", metavar="PATH", help="folder or s3a:// address that contains v1/")
    add("--out", required=True, metavar="DIR", help="folder for the report and the store")
    add("--from", dest="begin", metavar="TIME", help="start of the report (2026-01-31T05:00, UTC)")
    add("--to", dest="end", metavar="TIME", help="end of the report")
    add("--last", type=float, metavar="HOURS", help="report on the last HOURS hours, instead of --from and --to")
    add("--master", default="local[*]", help="Spark master (default: %(default)s)")
    add("--conf", action="append", default=[], metavar="NAME=VALUE", help="Spark setting; repeatable")
    add("--endpoint", metavar="URL", help="S3 server of s3a:// addresses, if not AWS: http://minio:9000")
    add("--streaming", action="store_true", help="find new files by Structured Streaming (availableNow)")
    for name, days, what in (
        ("--keep-raw", default.raw, "REMOVE exported files that are older and processed; 0 (default): never"),
        ("--keep-curated", default.curated, "keep curated files this long (default: %(default)s)"),
        ("--keep-rollups", default.rollups, "keep rollups this long (default: %(default)s)"),
    ):
        add(name, type=float, default=days, metavar="DAYS", help=what)
    add(
        "--findings-file",
        type=Path,
        metavar="FILE",
        help="also write the findings to FILE as JSON of at most 4096 bytes; the chart names the file of the "
        "container's termination message, where the operator reads them",
    )
    add("--strict", action="store_true", help="exit with code 3 if records are missing or lines are corrupt")
    add("--quiet", action="store_true", help="print neither progress nor summary")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    with ends_on_interrupt(INTERRUPTED.format(options.out)) as spark_started:
        return _run(options, spark_started)


def _run(options: argparse.Namespace, spark_started: Callable[[], object]) -> int:
    try:
        server = s3a_settings(options.endpoint) if options.endpoint else {}
        conf = server | dict(setting(text) for text in options.conf)
        begin, end = limits(options, datetime.now(UTC))
        retention = Retention(options.keep_raw, options.keep_curated, options.keep_rollups)
        job = Options(options.path, options.out, begin, end, options.master, options.streaming, retention, conf)
        report = launch.run(job, _discard if options.quiet else _print, spark_started)
        if options.findings_file is not None:
            found = [FoundKind(each.kind, len(each.cases), each.text) for each in report.findings]
            _write(options.findings_file, findings_message(found))
    except ModuleNotFoundError as error:
        print(f"waymesh analyze: {error}\n{INSTALL}", file=sys.stderr)
        return 1
    except AnalyticsError as error:
        print(f"waymesh analyze: {error}", file=sys.stderr)
        return 4 if isinstance(error, StoreBusy) else 1
    if not options.quiet:
        from rich.console import Console

        from waymesh_analytics.report.terminal import show

        show(report, Console())
    return 3 if options.strict and report.incomplete else 0


def limits(options: argparse.Namespace, now: datetime) -> tuple[datetime | None, datetime | None]:
    """The begin and end of the report; None: no limit. Raises AnalyticsError."""
    if options.last is None:
        begin, end = (parse_time(text) if text else None for text in (options.begin, options.end))
        return begin, end
    if options.begin or options.end:
        raise AnalyticsError("--last cannot be combined with --from and --to")
    if not 0 < options.last < MOST_HOURS:
        raise AnalyticsError(f"--last {options.last:g}: expected a number of hours from 0 to {MOST_HOURS:,}")
    return now - timedelta(hours=options.last), None


def _write(file: Path, text: str) -> None:
    """Raises AnalyticsError."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise AnalyticsError(f"cannot write the findings: {error}") from error


def setting(text: str) -> tuple[str, str]:
    """The name and value of --conf. Raises AnalyticsError."""
    name, equals, value = text.partition("=")
    if not equals:
        raise AnalyticsError(f"--conf {text}: expected NAME=VALUE")
    return name, value


def _print(text: str) -> None:
    print(f"analyze: {text}", file=sys.stderr, flush=True)


def _discard(text: str) -> None:
    pass
