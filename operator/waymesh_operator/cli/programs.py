"""`waymesh analyze` and `query` (the Spark job) and `waymesh policy`: commands that run another program of Waymesh."""

from __future__ import annotations

import enum
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from .options import Context, Namespace, flatten

Master = Annotated[str | None, typer.Option(help="Spark master.", show_default="local[*]")]
SparkSettings = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="Spark setting; repeatable.", show_default=False)
]
Endpoint = Annotated[
    str | None,
    typer.Option(metavar="URL", help="S3 endpoint of s3a:// addresses if it is not AWS: http://minio:9000."),
]


class JobCommand(TyperCommand):
    """A command that keeps its arguments, because the job gets them unchanged."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the arguments; parsing only detects wrong usage and shows the help."""
        ctx.obj = tuple(args)
        return super().parse_args(ctx, args)


@dataclass(frozen=True, slots=True)
class AnalyzeOptions:
    """The options of `python -m waymesh_analytics`, which also has their defaults."""

    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder or s3a:// address that contains v1/.")]
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Folder for the report and the store.")]
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Report from this hour on: 2026-01-31T05:00 (UTC).")
    ] = None
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Report up to this time.")] = None
    last: Annotated[
        float | None,
        typer.Option(metavar="HOURS", help="Report on the last HOURS hours, instead of --from and --to."),
    ] = None
    master: Master = None
    conf: SparkSettings = None
    endpoint: Endpoint = None
    streaming: Annotated[
        bool, typer.Option("--streaming", help="Find new files by Structured Streaming (availableNow).")
    ] = False
    keep_raw: Annotated[
        float | None,
        typer.Option(
            metavar="DAYS",
            help="DELETE exported files older than this once they are read; 0: never.",
            show_default="0",
        ),
    ] = None
    keep_curated: Annotated[
        float | None, typer.Option(metavar="DAYS", help="Keep single records this long.", show_default="30")
    ] = None
    keep_rollups: Annotated[
        float | None,
        typer.Option(metavar="DAYS", help="Keep hourly sums this long.", show_default="400"),
    ] = None
    findings_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Also write the findings to FILE as JSON of at most 4096 bytes, as a container's termination message.",
        ),
    ] = None
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit code 3 if records are missing or lines were corrupt.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")] = False


@flatten
def analyze(ctx: typer.Context, options: AnalyzeOptions) -> None:
    """Report on the files that routers exported: traffic, latency, outcomes, faults, missing records.

    Needs the extra `analytics` and Java. Results are kept in OUT/store: the next run reads only new files.
    Exit code 0; 1 for an error; 2 for wrong usage; 3 with --strict if records are missing; 4 if another run
    writes OUT/store.
    """
    raise typer.Exit(run_job(ctx.obj))


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """The options of `python -m waymesh_analytics.cli.query`, which also has their defaults."""

    sql: Annotated[str, typer.Argument(metavar="SQL", help="A query: SELECT, WITH or VALUES.")]
    report: Annotated[
        str | None, typer.Option(metavar="DIR", help="The --out folder of `waymesh analyze`.", show_default="report")
    ] = None
    format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT", help="table, csv, json or parquet.", show_default="by the extension of --out, else table"
        ),
    ] = None
    out: Annotated[str | None, typer.Option("--out", metavar="FILE", help="Write to a file instead of stdout.")] = None
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", metavar="WHEN", help="The store as of a time (2026-01-31T05:00, UTC) or version."),
    ] = None
    master: Master = None
    conf: SparkSettings = None
    endpoint: Endpoint = None


@flatten
def query(ctx: typer.Context, options: QueryOptions) -> None:
    """Run Spark SQL on the records and hourly sums that `waymesh analyze` keeps; docs/tables.md lists the tables.

    Needs the extra `analytics` and Java. Only reads. Exit code 0; 1 for wrong SQL, no store or another error; 2 for
    wrong usage.
    """
    raise typer.Exit(run_job(ctx.obj, "waymesh_analytics.cli.query"))


SIGNALLED = 128
"""Exit codes of shells for a process that a signal ended begin behind it."""


def run_job(words: Sequence[str], module: str = "waymesh_analytics") -> int:
    """Run `python -m MODULE` with these arguments and return its exit code; if a signal ended it, that of shells.

    Ctrl-C reaches the job too.
    """
    job = subprocess.Popen([sys.executable, "-m", module, *words])
    while True:
        try:
            code = job.wait()
            return code if code >= 0 else SIGNALLED - code
        except KeyboardInterrupt:
            continue  # the job also gets the signal and ends


PROGRAM = "waymesh_router.runtime.commands.policy"

policy = typer.Typer(help="Access policy of configuration files.", no_args_is_help=True)


class Direction(enum.StrEnum):
    """The direction of a client's link, as the client sees it: `in` to receive."""

    RECEIVE = "in"
    SEND = "out"


@policy.callback()
def _root() -> None:
    """Access policy of configuration files."""


@policy.command()
def check(
    filename: Annotated[
        list[Path],
        typer.Option("-f", "--filename", metavar="FILE", help="qdrouterd.conf, or JSON as in policyDir; repeatable."),
    ],
    user: Annotated[str, typer.Option(help="Authenticated name of the user.")],
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Numeric address that the user connects from.")],
    attach: Annotated[str, typer.Option(metavar="ADDRESS", help="Address of the link.")],
    direction: Annotated[Direction, typer.Option(help="in: receive from the address; out: send to it.")],
    hostname: Annotated[str, typer.Option(help="Host name in the client's open.", show_default="none")] = "",
    policy_vhost: Annotated[
        str,
        typer.Option(metavar="NAME", help="policyVhost of the listener; replaces the host name.", show_default="none"),
    ] = "",
    token_group: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP", help="Group in the user's token (groupsClaim); repeatable.", show_default="none"),
    ] = None,
) -> None:
    """Show which vhost, user group and rule decide on a client's connection and link.

    Does not contact a router, and does not check limits on the numbers of connections and links. A file without a
    policy section is checked as if vhost policies were enforced. Exit code: 0 allowed, 1 denied, 2 error.
    """
    files = [part for file in filename for part in ("--filename", str(file))]
    words = [f"--user={user}", f"--host={host}", f"--hostname={hostname}", f"--attach={attach}"]
    words += [f"--policy-vhost={policy_vhost}", *(f"--token-group={group}" for group in token_group or ())]
    # In another process: the operator does not import the router.
    command = [sys.executable, "-m", PROGRAM, *files, *words, f"--direction={direction.value}"]
    raise typer.Exit(subprocess.run(command, check=False).returncode)


def report(
    context: Context = None,
    namespace: Namespace = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Output file; - for stdout.")] = None,
    name: Annotated[
        str,
        typer.Option("--file", metavar="NAME", help="Which file of the report: summary.json, tables/traffic.json …"),
    ] = "report.html",
) -> None:
    """Fetch the report of a cluster's analytics job (value analytics.report.enabled of the chart)."""
    from .forward import run_report

    chosen = out or Path(Path(name).name)
    raise typer.Exit(run_report(context, namespace, None if str(chosen) == "-" else chosen, name))
