"""`waymesh`: the commands. Each imports its modules when it runs, so that every command starts quickly."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.main

from waymesh_operator.errors import ManifestError, WaymeshError

from .console import console
from .diagnosis import doctor, report_bundle
from .link import app as link
from .management import manage, stat
from .options import (
    Context,
    FreePorts,
    Namespace,
    NoColor,
    Output,
    RouterCommand,
    StateDir,
    Version,
    as_json,
    is_plugin,
    on_cluster,
)
from .programs import JobCommand, analyze, policy, query, report

if TYPE_CHECKING:
    from waymesh_operator.places.local.mesh import LocalMesh

app = typer.Typer(
    name="waymesh",
    help="Run, plan, inspect and change meshes of AMQP 1.0 routers.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

Files = Annotated[
    list[Path], typer.Option("-f", "--filename", metavar="FILE", help="Manifest file or folder; repeatable.")
]


@app.callback()
def _root(version: Version = False) -> None:
    """Run, plan, inspect and change meshes of AMQP 1.0 routers."""


@app.command()
def up(
    filename: Files,
    state_dir: StateDir = None,
    free_ports: FreePorts = False,
    once: Annotated[bool, typer.Option("--once", help="Stop when all is ready: exit code 0, else 1.")] = False,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to wait until all is ready; then exit code 1. 0: no limit.")
    ] = 0,
    no_color: NoColor = False,
) -> None:
    """Run the routers of manifests on this machine, and keep them in the state that the manifests describe.

    Changes of the files take effect at once. Ctrl-C drains and stops all routers; a second Ctrl-C stops them without
    waiting for unsettled deliveries.
    """
    from .up import UpOptions, run_up

    raise typer.Exit(run_up(UpOptions(filename, state_dir, free_ports, once, timeout, no_color)))


@app.command()
def plan(
    router: Annotated[str, typer.Argument(help="On a cluster: only this Router.", show_default="all")] = "",
    filename: Annotated[
        list[Path] | None,
        typer.Option("-f", "--filename", metavar="FILE", help="Manifest file or folder; repeatable."),
    ] = None,
    context: Context = None,
    namespace: Namespace = None,
    state_dir: StateDir = None,
    free_ports: FreePorts = False,
    output: Output = "table",
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit code 2 if there is something to do.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show log modules at their default, too.")] = False,
    no_color: NoColor = False,
) -> None:
    """Show what `waymesh up`, or with --context or -n the operator of a cluster, would do. Changes nothing.

    On a cluster, the plan assumes that the given manifests are applied.
    """
    json = as_json(output)
    files = filename or []
    if on_cluster(context, namespace):
        from .cluster import Where
        from .cluster_plan import ClusterPlanOptions, run_cluster_plan

        where = Where(context, namespace)
        options = ClusterPlanOptions(where, router, files, json, detailed_exitcode, no_color, everything)
        raise typer.Exit(run_cluster_plan(options))
    if not files:
        raise typer.BadParameter("give manifests, or a cluster with --context or -n", param_hint="--filename")
    from .up import LocalPlanOptions, run_local_plan

    local = LocalPlanOptions(files, state_dir, free_ports, json, detailed_exitcode, no_color, everything)
    raise typer.Exit(run_local_plan(local))


@app.command()
def status(
    router: Annotated[str, typer.Argument(help="Only this Router.", show_default="all")] = "",
    context: Context = None,
    namespace: Namespace = None,
    all_namespaces: Annotated[bool, typer.Option("-A", "--all-namespaces", help="All namespaces.")] = False,
    state_dir: StateDir = None,
    output: Output = "table",
    no_color: NoColor = False,
) -> None:
    """Show the Routers and the resources that refer to them. Exit code 0 if there are some and all are Ready, else 1.

    Shows the meshes that `waymesh up` runs on this machine, if any; else, or with --context, -n or -A, a cluster.
    """
    local = _local(context, namespace, state_dir, all_namespaces)
    if local:
        from .local import run_local_status

        raise typer.Exit(run_local_status(local, router, as_json(output), no_color))
    from .cluster import Where, run_status

    raise typer.Exit(run_status(Where(context, namespace, all_namespaces), router, as_json(output), no_color))


@app.command()
def topology(
    router: Annotated[str, typer.Argument(help="Only this Router.", show_default="all")] = "",
    context: Context = None,
    namespace: Namespace = None,
    state_dir: StateDir = None,
    no_color: NoColor = False,
) -> None:
    """Show which routers are connected. Exit code 0 if no connection is missing, else 1.

    Shows the meshes that `waymesh up` runs on this machine, if any; else, or with --context or -n, a cluster.
    """
    local = _local(context, namespace, state_dir)
    if local:
        from .local import run_local_topology

        raise typer.Exit(run_local_topology(local, router, no_color))
    from .cluster import Where, run_topology

    raise typer.Exit(run_topology(Where(context, namespace), router, no_color))


@app.command()
def drain(
    pod: Annotated[str, typer.Argument(help="Pod of the router, or name of a local router.")],
    context: Context = None,
    namespace: Namespace = None,
    state_dir: StateDir = None,
    timeout: Annotated[int, typer.Option(min=0, help="Seconds for deliveries to be settled.")] = 30,
    undo: Annotated[bool, typer.Option("--undo", help="Put the router back into service.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until the router is drained.")] = False,
) -> None:
    """Make a router hand its clients over to the other routers.

    The router is one that `waymesh up` runs on this machine, if any does; else, or with --context or -n, a pod.
    """
    local = _local(context, namespace, state_dir)
    if local:
        from .drain import drain_at
        from .local import local_router

        with local_router(local, pod) as (name, url):
            raise typer.Exit(drain_at(name, url, timeout, undo, not no_wait))
    from .cluster import Where
    from .drain import drain_pod

    raise typer.Exit(drain_pod(Where(context, namespace), pod, timeout, undo, not no_wait))


@app.command()
def explain(
    field: Annotated[
        str, typer.Argument(metavar="[KIND[.FIELD...]]", help="As in router.spec.size.", show_default="all kinds")
    ] = "",
    recursive: Annotated[bool, typer.Option("--recursive", help="Also show nested fields.")] = False,
    no_color: NoColor = False,
) -> None:
    """Describe the kinds and fields of manifests. Needs no cluster."""
    from .explain import run_explain

    raise typer.Exit(run_explain(field, recursive, no_color))


app.command()(console)
app.command()(doctor)
app.command(name="report-bundle")(report_bundle)
app.command(cls=RouterCommand)(stat)
app.command(cls=RouterCommand)(manage)
app.command(cls=JobCommand)(analyze)
app.command(cls=JobCommand)(query)
app.command()(report)
app.add_typer(policy, name="policy")
app.add_typer(link, name="link")


@app.command()
def user(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Name of the user.", show_default=False)] = "",
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", metavar="FILE", help="Users file to change.", show_default="print the lines"),
    ] = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MECHANISM",
            help="SCRAM-SHA-512, SCRAM-SHA-256 or SCRAM-SHA-1; repeatable.",
            show_default="SCRAM-SHA-512 and SCRAM-SHA-256",
        ),
    ] = None,
    iterations: Annotated[int, typer.Option(min=4096, max=1_000_000, help="Iterations of the key derivation.")] = 4096,
    secret: Annotated[
        str, typer.Option(metavar="SECRET", help="Print a Secret of this name, for users of a Router.")
    ] = "",
    namespace: Annotated[str, typer.Option("-n", "--namespace", help="Namespace of the Secret.")] = "",
    output: Annotated[str, typer.Option("-o", "--output", help="Format of the Secret: yaml.")] = "yaml",
    remove: Annotated[bool, typer.Option("--remove", help="Remove the user; asks for no password.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the users of FILE and their mechanisms.")] = False,
) -> None:
    """Generate a user's lines of a users file (saslConfigDir of the router), with keys instead of the password.

    The password is read from the terminal without echo, or from the standard input. With --file, the lines replace
    those of the user in the file, and routers reload it. With --secret, the command prints a Secret with the lines:
    create it with kubectl apply, or add it to an existing one with kubectl patch.
    """
    from .user import UserOptions, run_user

    options = UserOptions(name, file, secret, namespace, output, remove, list_)
    raise typer.Exit(run_user(options, mechanism, iterations))


@app.command(name="import")
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="qdrouterd.conf files (or *.json), or Interconnect *.yaml; also *.gz."),
    ],
    name: Annotated[str, typer.Option(help="Name of the Router.", show_default="from the files")] = "",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Output file.", show_default="stdout")] = None,
    secrets_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for Secrets, in files that only you may read.")
    ] = None,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Write the manifests without what denied and is lost.")
    ] = False,
) -> None:
    """Translate configurations of Qpid Dispatch, or Interconnect resources of its operator, to manifests.

    Settings without a counterpart are listed on stderr and in comments of the output. If one of them denies something
    (policy, TLS, authentication), exit code 3 and no output, unless --accept-loss is given. Without --secrets-dir, the
    output has passwords of connectors in clear.
    """
    from .import_ import ImportOptions, run_import

    raise typer.Exit(run_import(ImportOptions(files, name, out, accept_loss, secrets_dir)))


@app.command()
def run(
    router_image: Annotated[str, typer.Option(envvar="WAYMESH_ROUTER_IMAGE", help="Image of the router pods.")],
    namespace: Annotated[
        list[str] | None, typer.Option("-n", "--namespace", help="Manage only this namespace; repeatable.")
    ] = None,
    image_pull_policy: Annotated[
        str, typer.Option(metavar="Always|IfNotPresent|Never", help="When nodes pull the image (imagePullPolicy).")
    ] = "IfNotPresent",
    lease_namespace: Annotated[
        str, typer.Option(help="Namespace of the Lease.", show_default="that of the operator")
    ] = "",
    http_port: Annotated[int, typer.Option(help="Port of /healthz, /readyz and /metrics.")] = 8080,
    cluster_domain: Annotated[str, typer.Option(help="DNS domain of the cluster.")] = "cluster.local",
    resync_seconds: Annotated[
        float, typer.Option(min=1, max=3600, help="Interval between two looks at a mesh in which nothing happens.")
    ] = 30.0,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig, outside a cluster.")] = None,
    log_format: Annotated[str, typer.Option(metavar="json|text", help="One JSON object per line, or text.")] = "json",
    log_level: Annotated[
        str, typer.Option(metavar="debug|info|warning|error", help="Lowest level that is logged.")
    ] = "info",
) -> None:
    """Run the operator of a Kubernetes cluster. Its pods run this command."""
    from waymesh_operator.places.kubernetes.context import OperatorSettings
    from waymesh_operator.places.kubernetes.operator import Options, run_operator
    from waymesh_operator.places.kubernetes.worker.environment import Pace

    settings = OperatorSettings(router_image, image_pull_policy, cluster_domain)
    pace = Pace(resync_s=resync_seconds)
    options = Options(settings, tuple(namespace or ()), lease_namespace, http_port, pace=pace)
    raise typer.Exit(run_operator(options, context, log_format, log_level))


@app.command()
def demo(
    messages: Annotated[int, typer.Option(min=1, help="Messages of each kind.")] = 10_000,
    no_color: NoColor = False,
) -> None:
    """Run a demo: three routers, messages, tables, and the loss of a router. Ends by itself."""
    from .demo import run_demo

    raise typer.Exit(run_demo(messages, no_color))


def _local(
    context: str | None, namespace: str | None, state_dir: Path | None, everywhere: bool = False
) -> list[LocalMesh]:
    """Return the meshes that run on this machine; none if the options name a cluster."""
    if everywhere or on_cluster(context, namespace):
        return []
    import time

    from .local import running_meshes

    return running_meshes(state_dir, time.monotonic())


@functools.cache
def _command() -> Callable[..., Any]:
    """All commands and their options: `app(…)` would look at the functions anew for each command line."""
    return typer.main.get_command(app)


def run_command(words: Sequence[str]) -> int:
    """Run a command line, given without the program's name, and return the exit code."""
    program = "kubectl-waymesh" if is_plugin() else "waymesh"
    try:
        code = _command()(words, prog_name=program, standalone_mode=False)
    except typer.TyperException as error:
        return _wrong_usage(error, program, words)
    except ManifestError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return 1
    except WaymeshError as error:
        print(f"waymesh: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # such as output to a full disk
        place = f"{error.filename}: " if error.filename else ""
        print(f"waymesh: {place}{error.strerror or error}", file=sys.stderr)
        return 1
    return code if isinstance(code, int) else 0


def _wrong_usage(error: typer.TyperException, program: str, words: Sequence[str]) -> int:
    """Print the usage and the error, as `waymesh stat: No such option: --x`, and return the exit code."""
    if not error.format_message():  # without a command, the help has been printed
        return error.exit_code
    context = getattr(error, "ctx", None) or _context_of(program, words)
    print(context.get_usage(), file=sys.stderr)
    print(f"{context.command_path}: {error.format_message()}", file=sys.stderr)
    return error.exit_code


def _context_of(program: str, words: Sequence[str]) -> typer.Context:
    """Return the command that the arguments name. Typer does not report it for an option without its argument."""
    group = typer.main.get_command(app)
    context = typer.Context(group, info_name=program)
    command = getattr(group, "commands", {}).get(words[0]) if words else None
    return context if command is None else typer.Context(command, parent=context, info_name=words[0])


def main() -> None:
    """Entry point of the program."""
    sys.exit(run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
