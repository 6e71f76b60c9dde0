"""`waymesh console`: the console of a mesh in a browser on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .options import Context, Namespace, StateDir, on_cluster

if TYPE_CHECKING:
    from .cluster import Where


def console(
    pod: Annotated[str, typer.Argument(help="Router, or pod of a router.", show_default="the only Router")] = "",
    context: Context = None,
    namespace: Namespace = None,
    state_dir: StateDir = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1.", show_default="any free one")
    ] = 0,
) -> None:
    """Show the console of a mesh in a browser on this machine, until Ctrl-C. Exit code 0, 1 for an error.

    On a cluster, it acts with your right to forward ports of the router's pod, so it needs no user of the mesh, and can
    change all that the router lets managers change. It prints an address with a code, which works once. Other programs
    of this machine are refused. For meshes that `waymesh up` runs here, it prints where their console is.
    """
    if not on_cluster(context, namespace):
        import time

        from .local import running_meshes

        local = running_meshes(state_dir, time.monotonic())
        for mesh in local:
            print(f"Console of {mesh.ref}: {mesh.console_url or 'none, this installation is without it'}")
        if local:
            return
    from .cluster import Where

    raise typer.Exit(run_console(Where(context, namespace), pod, port))


def run_console(where: Where, wanted: str, port: int) -> int:
    """Serve the console until the command is ended, by Ctrl-C for example; returns the exit code. Raises
    WaymeshError."""
    import asyncio

    from .cluster import LOCAL_PORT, choose_pod
    from .console_proxy import HOST, Proxy, bundle, serve
    from .forward import Forwarder  # the synchronous client is slow to import

    folder = bundle()
    namespace, pod = choose_pod(where, wanted)
    with Forwarder(where.context) as forwarder:
        ports = {pod: forwarder.port(namespace, pod, LOCAL_PORT)}

        def reach() -> tuple[str, int]:
            """The pod may be gone: then another one of the Router."""
            _, now = choose_pod(where, wanted)
            if now not in ports:
                ports[now] = forwarder.port(namespace, now, LOCAL_PORT)
            return HOST, ports[now]

        return asyncio.run(serve(Proxy(folder, reach), port, f"through {namespace}/{pod}"))


