"""`waymesh analyze`: runs the Spark job, a program of its own with its own dependencies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from .options import flatten


class AnalyzeCommand(TyperCommand):
    """A command that keeps its words, because the job gets them as they are."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the words; parsing finds wrong usage and shows the help."""
        ctx.obj = tuple(args)
        return super().parse_args(ctx, args)


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options of `python -m waymesh_analytics`, which also has their defaults."""

    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder, or s3a:// address, that holds v1/.")]
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Folder for the report and the store.")]
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Report from this hour on: 2026-01-31T05:00 (UTC).")
    ] = None
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Report up to this time.")] = None
    master: Annotated[str | None, typer.Option(help="Spark master.", show_default="local[*]")] = None
    conf: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Spark setting; repeatable.", show_default=False)
    ] = None
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="S3 endpoint of s3a:// addresses if it is not AWS: http://minio:9000."),
    ] = None
    streaming: Annotated[
        bool, typer.Option("--streaming", help="Find new files with Structured Streaming (availableNow).")
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
        typer.Option(metavar="DAYS", help="Keep the sums of minutes and hours this long.", show_default="400"),
    ] = None
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit code 3 if records are missing or lines were corrupt.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")] = False


@flatten
def analyze(ctx: typer.Context, options: JobOptions) -> None:
    """Report on the files that routers exported: traffic, latency, outcomes, faults, missing records.

    Needs the extra `analytics` and Java. What was read is kept in OUT/store: the next run reads only new files.
    Exit code 0; 1 for an error; 2 for wrong usage; 3 with --strict if records are missing; 4 if another run
    writes OUT/store.
    """
    raise typer.Exit(run_analyze(ctx.obj))


def run_analyze(words: Sequence[str]) -> int:
    """Run `python -m waymesh_analytics` with these words; returns its exit code. Ctrl-C reaches the job too."""
    job = subprocess.Popen([sys.executable, "-m", "waymesh_analytics", *words])
    while True:
        try:
            return job.wait()
        except KeyboardInterrupt:
            continue  # the job ends by itself
