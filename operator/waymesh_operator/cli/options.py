"""Options that several commands share; for `waymesh stat` and `manage`, which router to connect to, and how."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from waymesh_operator.errors import WaymeshError

if TYPE_CHECKING:
    from waymesh_client.channel import Sasl, Tls
    from waymesh_client.management import ManagementClient


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(version("waymesh"))
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit.")
]
StateDir = Annotated[
    Path | None,
    typer.Option(help="Folder for configurations, logs and ports.", show_default="~/.local/state/waymesh"),
]
NoColor = Annotated[bool, typer.Option("--no-color", help="Plain text without colours.")]
FreePorts = Annotated[bool, typer.Option("--free-ports", help="Use any free ports instead of those in the manifests.")]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig.", show_default="the current one")]
Namespace = Annotated[
    str | None, typer.Option("-n", "--namespace", help="Namespace.", show_default="that of the context")
]
Output = Annotated[str, typer.Option("-o", "--output", metavar="table|json", help="Output format.")]
EXIT_CHANGES = 2
"""Exit code of `waymesh plan --detailed-exitcode` when there is something to do."""


def is_plugin() -> bool:
    """Return whether the command runs as `kubectl waymesh`: then it works on a cluster."""
    return Path(sys.argv[0]).name.startswith("kubectl-")


def on_cluster(context: str | None, namespace: str | None) -> bool:
    """Return whether the options name a cluster instead of this machine."""
    return bool(context or namespace) or is_plugin()


def as_json(output: str) -> bool:
    """Check the value of --output. Raises BadParameter."""
    if output not in ("table", "json"):
        raise typer.BadParameter("must be table or json", param_hint="--output")
    return output == "json"


def flatten(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command one option for each field of the dataclasses among its parameters."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)}
    others = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(command).parameters.items()
        if name not in groups
    ]
    names = {group: [field.name for field in fields(kind)] for group, kind in groups.items()}

    def flat(**values: Any) -> None:
        for group, kind in groups.items():
            values[group] = kind(**{name: values.pop(name) for name in names[group]})
        command(**values)

    options = [option for kind in groups.values() for option in _parameters(kind)]
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in others] + options
    flat.__name__, flat.__doc__ = command.__name__, command.__doc__
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(flat)["__signature__"] = inspect.Signature(parameters)  # typer reads this attribute
    return flat


def _parameters(kind: type) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        yield inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, default=_default(one), annotation=hints[one.name]
        )


def _default(of: Field[Any]) -> Any:
    return inspect.Parameter.empty if of.default is MISSING else of.default

DEFAULT_BUS = "127.0.0.1:5672"
CLUSTER = "Router of a cluster"
CONNECTION = "Connection"
_CLUSTER_OPTIONS = {"--context": "context", "--namespace": "namespace", "-n": "namespace", "--pod": "pod"}

_EXCLUSIVE = (
    ("router", "edge_router"),
    ("bus", "pod"),
    ("bus", "context"),
    ("bus", "namespace"),
    ("ssl_password", "ssl_password_file"),
    ("sasl_password", "sasl_password_file"),
)
"""Options of which the second one would be ignored."""


@dataclass(slots=True)
class Split:
    """A command line: values of the options about the cluster, and all other arguments."""

    values: dict[str, str] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)


def split(words: Sequence[str]) -> Split:
    """Take out the options about the cluster. `-n` without a value stays: it is qdstat's --nodes.

    Raises WaymeshError for an option without its value.
    """
    found, queue = Split(), list(words)
    while queue:
        word = queue.pop(0)
        name, equals, value = word.partition("=")
        followed = bool(queue) and not queue[0].startswith("-")
        if name not in _CLUSTER_OPTIONS or (word == "-n" and not followed):
            found.rest.append(word)
        elif equals:
            found.values[_CLUSTER_OPTIONS[name]] = value
        elif followed:
            found.values[_CLUSTER_OPTIONS[name]] = queue.pop(0)
        else:
            raise WaymeshError(f"{word} needs a value")
    return found


class RouterCommand(TyperCommand):
    """A command with qdstat's options, where `-n` is --nodes, or --namespace if a value follows."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Write the options about the cluster in their long form, which is not ambiguous."""
        if not ctx.resilient_parsing:  # incomplete command line: the shell asks for completions
            found = split(args)
            args = [f"--{name}={value}" for name, value in found.values.items()] + found.rest
        return super().parse_args(ctx, args)


def _seconds(value: float) -> float:
    if not 0 < value < 86400:
        raise typer.BadParameter("must be more than 0")
    return value


@dataclass(frozen=True, slots=True)
class RouterOptions:
    """How to reach a router; the names are qdstat's."""

    context: Annotated[
        str | None,
        typer.Option(help="Context of the kubeconfig.", show_default="the current one", rich_help_panel=CLUSTER),
    ] = None
    namespace: Annotated[
        str | None,
        typer.Option(help="Namespace; also -n NAME.", show_default="that of the context", rich_help_panel=CLUSTER),
    ] = None
    pod: Annotated[
        str,
        typer.Option(metavar="NAME", help="Router pod, or Router: its first ready pod.", rich_help_panel=CLUSTER),
    ] = ""
    bus: Annotated[
        str | None,
        typer.Option(
            "-b",
            "--bus",
            metavar="URL",
            help="Router to connect to.",
            show_default=f"the running local mesh, else {DEFAULT_BUS}",
            rich_help_panel=CONNECTION,
        ),
    ] = None
    router: Annotated[
        str | None,
        typer.Option(
            "-r", "--router", metavar="ID", help="Ask this router of the network.", rich_help_panel=CONNECTION
        ),
    ] = None
    edge_router: Annotated[
        str | None,
        typer.Option(
            "-d", "--edge-router", metavar="ID", help="Ask this edge router, through an interior one.",
            rich_help_panel=CONNECTION,
        ),
    ] = None
    timeout: Annotated[
        float,
        typer.Option(
            "-t",
            "--timeout",
            metavar="SECS",
            callback=_seconds,
            help="Seconds to wait for a reply.",
            rich_help_panel=CONNECTION,
        ),
    ] = 5.0
    ssl_certificate: Annotated[
        str | None, typer.Option(metavar="FILE", help="Client certificate (PEM).", rich_help_panel=CONNECTION)
    ] = None
    ssl_key: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Private key of the client certificate (PEM).", rich_help_panel=CONNECTION),
    ] = None
    ssl_trustfile: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Certificate authorities to trust (PEM).", rich_help_panel=CONNECTION),
    ] = None
    ssl_password: Annotated[
        str | None,
        typer.Option(metavar="PASSWORD", help="Password of the private key.", rich_help_panel=CONNECTION),
    ] = None
    ssl_password_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="File with the password of the private key.", rich_help_panel=CONNECTION),
    ] = None
    ssl_disable_peer_name_verify: Annotated[
        bool,
        typer.Option(
            "--ssl-disable-peer-name-verify",
            help="Do not check the host name in the router's certificate (insecure).",
            rich_help_panel=CONNECTION,
        ),
    ] = False
    sasl_mechanisms: Annotated[
        str | None, typer.Option(metavar="NAMES", help="SASL mechanisms to allow.", rich_help_panel=CONNECTION)
    ] = None
    sasl_username: Annotated[
        str | None, typer.Option(metavar="USER", help="SASL user name.", rich_help_panel=CONNECTION)
    ] = None
    sasl_password: Annotated[
        str | None, typer.Option(metavar="PASSWORD", help="SASL password.", rich_help_panel=CONNECTION)
    ] = None
    sasl_password_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="File with the SASL password.", rich_help_panel=CONNECTION)
    ] = None

    def check(self) -> None:
        """Raises BadParameter for options that would have no effect with the others."""
        for one, other in _EXCLUSIVE:
            if getattr(self, one) and getattr(self, other):
                raise typer.BadParameter(f"use only one of {_option(one)}, {_option(other)}")
        for name in ("ssl_key", "ssl_password", "ssl_password_file"):
            if getattr(self, name) is not None and self.ssl_certificate is None:
                raise typer.BadParameter(f"{_option(name)} needs --ssl-certificate")

    def tls(self) -> Tls | None:
        """Raises OSError for an unreadable file."""
        from waymesh_client.channel import Tls

        if self.ssl_certificate is None and self.ssl_trustfile is None and not self.ssl_disable_peer_name_verify:
            return None
        return Tls(
            ca=self.ssl_trustfile,
            certificate=self.ssl_certificate,
            key=self.ssl_key,
            key_password=_password(self.ssl_password, self.ssl_password_file),
            verify_name=not self.ssl_disable_peer_name_verify,
        )

    def sasl(self) -> Sasl:
        """Raises OSError for an unreadable file."""
        from waymesh_client.channel import Sasl

        password = _password(self.sasl_password, self.sasl_password_file)
        return Sasl(self.sasl_mechanisms, self.sasl_username, password)


def run_on_router(name: str, options: RouterOptions, work: Callable[[ManagementClient], None]) -> int:
    """Connect, run the command `name`, and print errors to stderr.

    Returns the exit code: 0, 1, or 2 for bad connection options. Raises WaymeshError.
    """
    from waymesh_client.errors import ClientError
    from waymesh_client.management import ManagementClient

    options.check()
    with router_url(options) as url:
        try:
            client = ManagementClient(
                url,
                router=options.router,
                edge_router=options.edge_router,
                timeout_s=options.timeout,
                tls=options.tls(),
                sasl=options.sasl(),
            )
        except (ValueError, OSError) as error:
            print(f"waymesh {name}: {error}", file=sys.stderr)
            return 2
        try:
            with client:
                work(client)
        except ClientError as error:
            print(f"waymesh {name}: {error}", file=sys.stderr)
            return 1
        except BrokenPipeError:
            return 1
    return 0


@contextmanager
def router_url(options: RouterOptions) -> Iterator[str]:
    """Return the URL from the options, else of the running local mesh, else the default. Raises WaymeshError."""
    if options.bus is not None:
        yield options.bus
    elif options.pod or options.context or options.namespace or is_plugin():
        from .cluster import Where, bus  # slow to import

        with bus(Where(options.context, options.namespace), options.pod) as (_, url):
            yield url
    else:
        from .local import local_bus

        yield local_bus() or DEFAULT_BUS


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _password(value: str | None, file: str | None) -> str | None:
    return value if file is None else Path(file).read_text().strip()
