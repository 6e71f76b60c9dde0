"""`waymesh console`: the console of a mesh in a browser on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waymesh_operator.errors import WaymeshError

from .console_report import in_cluster, in_folder
from .options import Context, Namespace, StateDir, on_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waymesh_operator.places.local.mesh import LocalMesh

    from .cluster import Where
    from .console_proxy import Reach
    from .console_report import Report


def console(
    pod: Annotated[str, typer.Argument(help="Router, or pod of a router.", show_default="the only Router")] = "",
    context: Context = None,
    namespace: Namespace = None,
    state_dir: StateDir = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1.", show_default="any free one")
    ] = 0,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Show the report in this --out folder of `waymesh analyze`.",
            show_default="that of the cluster's analytics job",
        ),
    ] = None,
) -> None:
    """Show the console of a mesh in a browser on this machine, until Ctrl-C. Exit code 0, 1 for an error.

    On a cluster, it acts with your right to forward ports of the router's pod, so it needs no user of the mesh, and can
    change all that the router lets managers change. It prints an address with a code, which works once. Other programs
    of this machine are refused. For meshes that `waymesh up` runs here, it prints where their console is; with
    --report, it serves one with the report, as for a cluster.
    """
    if not on_cluster(context, namespace):
        import time

        from .local import running_meshes

        local = running_meshes(state_dir, time.monotonic())
        if local and report:
            raise typer.Exit(run_local_console(local, pod, port, in_folder(report)))
        for mesh in local:
            print(f"Console of {mesh.ref}: {mesh.console_url or 'none, this installation is without it'}")
        if local:
            return
    from .cluster import Where

    chosen = in_folder(report) if report else in_cluster(context, namespace)
    raise typer.Exit(run_console(Where(context, namespace), pod, port, chosen))


def run_local_console(meshes: Sequence[LocalMesh], wanted: str, port: int, report: Report) -> int:
    """Serve the console of a local mesh, with a report, until the command is ended; returns the exit code. `wanted`:
    its name, as `waymesh status` prints it, or that of a router in it; "" if there is one mesh. Raises WaymeshError."""
    from waymesh_operator.router_entities.names import OPERATORS

    from .console_proxy import HOST

    named = [mesh for mesh in meshes if wanted in ("", str(mesh.ref), *mesh.routers)]
    if len(named) != 1:
        raise WaymeshError(f"choose one mesh: {', '.join(str(mesh.ref) for mesh in meshes)}")
    (mesh,) = named
    router = wanted if wanted in mesh.routers else min(mesh.routers, key=lambda name: int(name.rpartition("-")[2]))
    at = mesh.folder.ports[router][OPERATORS][1]
    return _serve(lambda: (HOST, at), port, report, f"of {mesh.ref}, through {router}")


def _serve(reach: Reach, port: int, report: Report, about: str) -> int:
    import asyncio

    from .console_proxy import Proxy, bundle, serve

    return asyncio.run(serve(Proxy(bundle(), reach, report), port, about))


def run_console(where: Where, wanted: str, port: int, report: Report) -> int:
    """Serve the console until the command is ended, by Ctrl-C for example; returns the exit code. Raises
    WaymeshError."""
    from .cluster import LOCAL_PORT, choose_pod
    from .console_proxy import HOST, bundle
    from .forward import Forwarder  # the synchronous client is slow to import

    bundle()  # without it, say so before a port is forwarded
    namespace, pod = choose_pod(where, wanted)
    with Forwarder(where.context) as forwarder:
        ports = {pod: forwarder.port(namespace, pod, LOCAL_PORT)}

        def reach() -> tuple[str, int]:
            """The pod may be gone: then another one of the Router."""
            _, now = choose_pod(where, wanted)
            if now not in ports:
                ports[now] = forwarder.port(namespace, now, LOCAL_PORT)
            return HOST, ports[now]

        return _serve(reach, port, report, f"through {namespace}/{pod}")
