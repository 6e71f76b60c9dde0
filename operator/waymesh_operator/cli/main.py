"""`waymesh`: the commands. What a command needs is imported when it runs, so that each starts quickly."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from waymesh_operator.errors import ManifestError, WaymeshError

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
app = typer.Typer(
    name="waymesh",
    help="AMQP 1.0 router meshes: run them here, plan them, look at them, change them.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

Files = Annotated[
    list[Path], typer.Option("-f", "--filename", metavar="FILE", help="Manifest file or folder; may be given often.")
]
StateDir = Annotated[
    Path | None,
    typer.Option(help="Where configurations, logs and ports are kept.", show_default="~/.local/state/waymesh"),
]
NoColor = Annotated[bool, typer.Option("--no-color", help="Plain text without colours.")]
FreePorts = Annotated[bool, typer.Option("--free-ports", help="Take any free ports, not those of the manifests.")]

Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig.", show_default="the current one")]
Namespace = Annotated[
    str | None, typer.Option("-n", "--namespace", help="Namespace.", show_default="that of the context")
]
Output = Annotated[str, typer.Option("-o", "--output", metavar="table|json", help="How to print it.")]


def _is_plugin() -> bool:
    """Whether we are called as `kubectl waymesh`: then everything is about a cluster."""
    return Path(sys.argv[0]).name.startswith("kubectl-")


def _on_cluster(context: str | None, namespace: str | None) -> bool:
    return bool(context or namespace) or _is_plugin()


def _as_json(output: str) -> bool:
    if output not in ("table", "json"):
        raise typer.BadParameter("must be table or json", param_hint="--output")
    return output == "json"


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(version("waymesh"))
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """AMQP 1.0 router meshes: run them here, plan them, look at them, change them."""


@app.command()
def up(
    filename: Files,
    state_dir: StateDir = None,
    free_ports: FreePorts = False,
    once: Annotated[
        bool, typer.Option("--once", help="Stop everything again as soon as all is ready: exit code 0, else 1.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds until all must be ready; then exit code 1. 0 waits for ever.")
    ] = 0,
    no_color: NoColor = False,
) -> None:
    """Run the routers of manifests on this machine, and keep them as the manifests say.

    Edits of the files act at once. Ctrl-C drains and stops all; a second Ctrl-C does not wait for what is unsettled.
    """
    from .up import UpOptions, run_up

    raise typer.Exit(run_up(UpOptions(filename, state_dir, free_ports, once, timeout, no_color)))


@app.command()
def plan(
    router: Annotated[str, typer.Argument(help="On a cluster: this Router only.", show_default="all")] = "",
    filename: Annotated[
        list[Path] | None,
        typer.Option("-f", "--filename", metavar="FILE", help="Manifest file or folder; may be given often."),
    ] = None,
    context: Context = None,
    namespace: Namespace = None,
    state_dir: StateDir = None,
    free_ports: FreePorts = False,
    output: Output = "table",
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit code 2 when there is something to do.")
    ] = False,
    no_color: NoColor = False,
) -> None:
    """Show what `waymesh up` (with --context or -n: the operator of a cluster) would do now, and do nothing.

    On a cluster, files are taken as if they had been applied.
    """
    as_json = _as_json(output)
    files = filename or []
    if _on_cluster(context, namespace):
        from .cluster import Where
        from .cluster_plan import ClusterPlanOptions, run_cluster_plan

        where = Where(context, namespace)
        raise typer.Exit(
            run_cluster_plan(ClusterPlanOptions(where, router, files, as_json, detailed_exitcode, no_color))
        )
    if not files:
        raise typer.BadParameter("give manifests, or a cluster with --context or -n", param_hint="--filename")
    from .plan import PlanOptions, run_plan

    raise typer.Exit(run_plan(PlanOptions(files, state_dir, free_ports, as_json, detailed_exitcode, no_color)))


@app.command()
def status(
    router: Annotated[str, typer.Argument(help="This Router only.", show_default="all")] = "",
    context: Context = None,
    namespace: Namespace = None,
    all_namespaces: Annotated[bool, typer.Option("-A", "--all-namespaces", help="All namespaces.")] = False,
    output: Output = "table",
    no_color: NoColor = False,
) -> None:
    """Show the Routers of a cluster and all that refers to them. Exit code 0 when all are Ready, else 1."""
    from .cluster import Where
    from .status import run_status

    raise typer.Exit(run_status(Where(context, namespace, all_namespaces), router, _as_json(output), no_color))


@app.command()
def topology(
    router: Annotated[str, typer.Argument(help="This Router only.", show_default="all")] = "",
    context: Context = None,
    namespace: Namespace = None,
    no_color: NoColor = False,
) -> None:
    """Show which routers of a cluster are connected. Exit code 0 when all are that should be, else 1."""
    from .cluster import Where
    from .status import run_topology

    raise typer.Exit(run_topology(Where(context, namespace), router, no_color))


@app.command()
def drain(
    pod: Annotated[str, typer.Argument(help="The router's pod.")],
    context: Context = None,
    namespace: Namespace = None,
    timeout: Annotated[int, typer.Option(min=0, help="Seconds that deliveries have to be settled.")] = 30,
    undo: Annotated[bool, typer.Option("--undo", help="Take it back into service.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until it is drained.")] = False,
) -> None:
    """Have a router of a cluster hand its clients over to the others."""
    from .cluster import Where
    from .drain import run_drain

    raise typer.Exit(run_drain(Where(context, namespace), pod, timeout, undo, not no_wait))


@app.command(context_settings=PASSED_ON)
def stat(ctx: typer.Context) -> None:
    """Look at a router: connections, links, addresses, neighbours (options as in qdstat).

    On a cluster: --pod NAME (a router pod, or a Router), --context NAME, --namespace NAME or -n NAME.
    """
    from waymesh_client.cli.stat import main as stat_main

    from .passing import pass_on

    raise typer.Exit(pass_on(stat_main, ctx.args, _is_plugin()))


@app.command(context_settings=PASSED_ON)
def manage(ctx: typer.Context) -> None:
    """Read and change the entities of a router (commands and options as in qdmanage).

    On a cluster: --pod NAME (a router pod, or a Router), --context NAME, --namespace NAME or -n NAME.
    """
    from waymesh_client.cli.manage import main as manage_main

    from .passing import pass_on

    raise typer.Exit(pass_on(manage_main, ctx.args, _is_plugin()))


@app.command(context_settings=PASSED_ON)
def analyze(ctx: typer.Context) -> None:
    """Report on what routers exported: `waymesh analyze PATH --out DIR`. Needs the extra `analytics` and Java."""
    from .analyze import run_analyze

    raise typer.Exit(run_analyze(ctx.args))


@app.command()
def report(
    context: Context = None,
    namespace: Namespace = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="File; - is stdout.")] = None,
    name: Annotated[
        str, typer.Option("--file", metavar="NAME", help="Of what the job made: summary.json, tables/traffic.json …")
    ] = "report.html",
) -> None:
    """Fetch the report of a cluster's analytics job (value analytics.report.enabled of the chart)."""
    from .cluster import Where
    from .report import run_report

    chosen = out or Path(Path(name).name)
    raise typer.Exit(run_report(Where(context, namespace), None if str(chosen) == "-" else chosen, name))


@app.command()
def run(
    router_image: Annotated[str, typer.Option(envvar="WAYMESH_ROUTER_IMAGE", help="Image of the router pods.")],
    namespace: Annotated[
        list[str] | None, typer.Option("-n", "--namespace", help="Look after this one only; may be given often.")
    ] = None,
    image_pull_policy: Annotated[
        str, typer.Option(metavar="Always|IfNotPresent|Never", help="When nodes pull that image.")
    ] = "IfNotPresent",
    lease_namespace: Annotated[str, typer.Option(help="Where the Lease is kept.", show_default="our own")] = "",
    http_port: Annotated[int, typer.Option(help="Port of /healthz, /readyz and /metrics.")] = 8080,
    cluster_domain: Annotated[str, typer.Option(help="DNS domain of the cluster.")] = "cluster.local",
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig, outside a cluster.")] = None,
    log_format: Annotated[str, typer.Option(metavar="json|text", help="One JSON object a line, or text.")] = "json",
    log_level: Annotated[str, typer.Option(metavar="debug|info|warning|error", help="The least level.")] = "info",
) -> None:
    """Be the operator of a Kubernetes cluster: what its pods run."""
    from waymesh_operator.cluster.context import OperatorSettings
    from waymesh_operator.cluster.operator import Options

    from .run import run_operator

    settings = OperatorSettings(router_image, image_pull_policy, cluster_domain)
    options = Options(settings, tuple(namespace or ()), lease_namespace, http_port)
    raise typer.Exit(run_operator(options, context, log_format, log_level))


@app.command()
def demo(
    messages: Annotated[int, typer.Option(min=1, help="Messages of each kind.")] = 10_000,
    no_color: NoColor = False,
) -> None:
    """Show a mesh of three routers at work: messages, tables, the loss of a router. Ends by itself."""
    from waymesh_operator.demo.story import run_demo

    raise typer.Exit(run_demo(messages, no_color))


def main() -> None:
    """Entry point of the command."""
    try:
        app()
    except ManifestError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        sys.exit(1)
    except WaymeshError as error:
        print(f"waymesh: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
