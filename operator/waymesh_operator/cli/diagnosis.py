"""Commands that find out what is wrong."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import Context, NoColor, Output, as_json


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
