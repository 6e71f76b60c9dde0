"""`waymesh stat` and `waymesh manage` on a router pod or on a local mesh: what names it, and the rest for the tool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from waymesh_operator.errors import WaymeshError

from .cluster import Where, bus
from .local_bus import local_bus

_BUS = ("-b", "--bus")
_NAMES = {"--context": "context", "--namespace": "namespace", "-n": "namespace", "--pod": "pod"}


@dataclass(slots=True)
class Split:
    """Words of a command line: values of the options about the cluster, and the other words."""

    values: dict[str, str] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)


def split(words: Sequence[str]) -> Split:
    """Take the options about the cluster out. `-n` is one only with a name behind it: alone it is qdstat's --nodes.

    Raises WaymeshError for an option without its value.
    """
    found, queue = Split(), list(words)
    while queue:
        word = queue.pop(0)
        name, equals, value = word.partition("=")
        followed = bool(queue) and not queue[0].startswith("-")
        if name not in _NAMES or (word == "-n" and not followed):
            found.rest.append(word)
        elif equals:
            found.values[_NAMES[name]] = value
        elif followed:
            found.values[_NAMES[name]] = queue.pop(0)
        else:
            raise WaymeshError(f"{word} needs a value")
    return found


def pass_on(tool: Callable[[Sequence[str]], int], words: Sequence[str], cluster: bool) -> int:
    """Run the tool on the router that the words name, else on the running local mesh, else on the tool's default.

    Returns its exit code. Raises WaymeshError.
    """
    found = split(words)
    help_wanted = bool({"-h", "--help"} & set(found.rest))
    if help_wanted:
        return tool(words)
    if not (found.values or cluster):
        url = None if any(word.startswith(_BUS) for word in words) else local_bus()
        return tool(words if url is None else ["--bus", url, *words])
    where = Where(found.values.get("context"), found.values.get("namespace"))
    with bus(where, found.values.get("pod", "")) as (_, url):
        return tool(["--bus", url, *found.rest])
