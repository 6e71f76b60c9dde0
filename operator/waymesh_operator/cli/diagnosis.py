"""Commands that find out what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from waymesh_operator.errors import WaymeshError

from .options import Context, Namespace, NoColor, Output, StateDir, as_json, on_cluster


def doctor(
    context: Context = None,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", help="Meshes of this namespace.", show_default="all namespaces")
    ] = None,
    output: Output = "table",
    no_color: NoColor = False,
) -> None:
    """Check a cluster: definitions, operator and its rights, images, certificates, meshes.

    Each problem is shown with what to do about it. Exit code 1 if there is one.
    """
    from .cluster import Where
    from .doctor import run_doctor

    raise typer.Exit(run_doctor(Where(context, namespace), as_json(output), no_color))


def report_bundle(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Archive to write.")
    ] = Path("waymesh-report.tar.gz"),
    log_lines: Annotated[int, typer.Option(min=0, help="Last lines of each log.")] = 5000,
    context: Context = None,
    namespace: Namespace = None,
    state_dir: StateDir = None,
) -> None:
    """Collect what somebody needs who helps: resources, status, events, logs, and what routers say, in one archive.

    Secrets are not read; passwords, tokens, keys and names of users in the rest are replaced. It has the meshes that
    `waymesh up` runs on this machine, or with --context, -n or as kubectl waymesh a namespace of a cluster. Exit code 1
    if something could not be read.
    """
    import time

    from .cluster import Where
    from .local import running_meshes
    from .report_bundle import of_cluster, of_local, run_report_bundle

    if on_cluster(context, namespace):
        parts = of_cluster(Where(context, namespace), log_lines)
    else:
        meshes = running_meshes(state_dir, time.monotonic())
        if not meshes:
            raise WaymeshError("no mesh runs on this machine; -n NAMESPACE collects those of a cluster")
        parts = of_local(meshes, log_lines)
    raise typer.Exit(run_report_bundle(parts, output, datetime.now(UTC)))
