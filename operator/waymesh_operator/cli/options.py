"""Options that several commands share."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer


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
    for field in fields(kind):
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name]
        )


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default
