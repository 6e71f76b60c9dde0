"""`waymesh query` and `python -m waymesh_analytics.cli.query`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from waymesh_analytics.errors import AnalyticsError
from waymesh_analytics.options import s3a_settings

from .interrupt import ends_on_interrupt
from .main import INSTALL, setting

FORMATS = ("table", "csv", "json", "parquet")


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="waymesh query",
        description="Run Spark SQL on the tables of a store that `waymesh analyze` wrote (docs/tables.md). It never "
        "changes the store.",
        epilog="Exit codes: 0 success; 1 wrong SQL, no store, or another failure; 2 invalid options.",
    )
    add = parser.add_argument
    add("sql", metavar="SQL", help="a query: SELECT address, count(*) FROM delivery GROUP BY address")
    add("--report", default="report", metavar="DIR", help="the --out folder of analyze (default: %(default)s)")
    add("--format", choices=FORMATS, default="", help="default: by the extension of --out, else table")
    add("--out", default="", metavar="FILE", help="write to a file instead of stdout")
    add("--as-of", default="", metavar="WHEN", help="the store as it was at a time (2026-01-31T05:00, UTC) or version")
    add("--master", default="local[*]", help="Spark master (default: %(default)s)")
    add("--conf", action="append", default=[], metavar="NAME=VALUE", help="Spark setting; repeatable")
    add("--endpoint", metavar="URL", help="S3 server of s3a:// addresses, if not AWS: http://minio:9000")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    usage = parser()
    options = usage.parse_args(arguments)
    try:
        from waymesh_analytics.query import output
        from waymesh_analytics.query.run import Query, run_query
    except ModuleNotFoundError as error:
        print(f"waymesh query: {error}\n{INSTALL.replace('analyze', 'query', 1)}", file=sys.stderr)
        return 1
    form = output.format_of(options.format, options.out)
    if form == "parquet" and not options.out:
        usage.error("--format parquet needs --out FILE")
    if form == "table" and options.out:
        usage.error("--out needs --format csv, json or parquet, or such an extension")
    try:
        server = s3a_settings(options.endpoint) if options.endpoint else {}
        conf = server | dict(setting(text) for text in options.conf)
        query = Query(options.sql, options.report, options.as_of, options.master, conf)
        with ends_on_interrupt("waymesh query: interrupted") as spark_started:
            result = run_query(query, spark_started)
        _write(result, form, options.out)
    except (AnalyticsError, OSError) as error:
        print(f"waymesh query: {error}", file=sys.stderr)
        return 1
    return 0


def _write(result: Any, form: str, out: str) -> None:
    from rich.console import Console

    from waymesh_analytics.query import output

    if form == "table":
        output.show(result, Console())
    elif out:
        output.replace_file(out, output.to_bytes(result, form))
    else:
        sys.stdout.buffer.write(output.to_bytes(result, form))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
