"""The test cluster by hand: `python -m tests.cluster COMMAND`."""

from __future__ import annotations

import argparse
import sys

from tests.cluster import binaries, images, install, modules, system
from tests.cluster.command import CommandError
from tests.cluster.lifecycle import DEFAULT_NAME, Cluster
from tests.cluster.paths import say


def up(options: argparse.Namespace) -> None:
    """Starts a cluster anew (unless one of that name answers), with our images and CRDs or the chart, or empty."""
    cluster = Cluster(options.name)
    if not cluster.ready:
        cluster.up()
    if options.empty:
        return
    cluster.import_images(images.build())
    if options.chart:
        install.install_chart(cluster)
    else:
        install.install_crds(cluster)
    print(f"export KUBECONFIG={cluster.kubeconfig}")
    say(f"kubectl and helm: {binaries.kubernetes() / 'kubectl'} {binaries.helm()}")


def down(options: argparse.Namespace) -> None:
    """Ends the cluster."""
    Cluster(options.name).down()


def add_node(options: argparse.Namespace) -> None:
    """One more node."""
    print(Cluster(options.name).add_node())


def remove_node(options: argparse.Namespace) -> None:
    """One node less, as if its machine were lost."""
    Cluster(options.name).remove_node(options.node)


def status(options: argparse.Namespace) -> None:
    """What is up."""
    cluster = Cluster(options.name)
    if not cluster.running:
        print(f"{cluster.name}: down")
        return
    print(f"{cluster.name}: {'ready' if cluster.ready else 'not answering'}, KUBECONFIG={cluster.kubeconfig}")
    for node in cluster.nodes:
        print(f"{node.name}: {'process ' + str(node.init) if node.init else 'dead'}, logs in {node.folder / 'log'}")


def load(options: argparse.Namespace) -> None:
    """Makes our images anew where something changed, and gives them to the nodes."""
    Cluster(options.name).import_images(images.build())


def check(_: argparse.Namespace) -> None:
    """Status 0 when this machine can run the cluster; else the reason, and status 3."""
    reason = system.obstacle()
    if reason:
        print(reason)
        sys.exit(3)


def prepare(_: argparse.Namespace) -> None:
    """System packages, binaries and images, without starting anything."""
    install.prepare()


def resolve_modules(options: argparse.Namespace) -> None:
    """go.mod and go.sum for other versions."""
    modules.regenerate(options.kubernetes, options.etcd, options.coredns, options.kube_router, options.metrics_server)


def main() -> int:
    """Reads the command line; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--name", default=DEFAULT_NAME, help="which cluster (default: %(default)s)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for function in (up, down, add_node, remove_node, status, load, check, prepare, resolve_modules):
        text = (function.__doc__ or "").strip()
        command = commands.add_parser(function.__name__.replace("_", "-"), help=text, description=text)
        command.set_defaults(run=function)
        if function is up:
            content = command.add_mutually_exclusive_group()
            content.add_argument("--chart", action="store_true", help="install the operator by its chart, too")
            content.add_argument("--empty", action="store_true", help="without anything of ours in it")
        if function is remove_node:
            command.add_argument("node")
        if function is resolve_modules:
            for part in ("kubernetes", "etcd", "coredns", "kube_router", "metrics_server"):
                command.add_argument(part, help=f"version of {part}, without v")
    options = parser.parse_args()
    try:
        options.run(options)
    except (system.Unsuitable, binaries.BuildError, CommandError, AssertionError) as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
