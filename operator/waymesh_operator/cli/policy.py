"""`waymesh policy`: what the access policy in configuration files allows."""

from __future__ import annotations

import enum
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

PROGRAM = "waymesh_router.runtime.policy_command"

policy = typer.Typer(help="Access policy of configuration files.", no_args_is_help=True)


class Direction(enum.StrEnum):
    """The direction of a client's link, as the client sees it: `in` to receive."""

    RECEIVE = "in"
    SEND = "out"


@policy.callback()
def _root() -> None:
    """Access policy of configuration files."""


@policy.command()
def check(
    filename: Annotated[
        list[Path],
        typer.Option("-f", "--filename", metavar="FILE", help="qdrouterd.conf, or JSON as in policyDir; repeatable."),
    ],
    user: Annotated[str, typer.Option(help="Authenticated name of the user.")],
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Numeric address that the user connects from.")],
    attach: Annotated[str, typer.Option(metavar="ADDRESS", help="Address of the link.")],
    direction: Annotated[Direction, typer.Option(help="in: receive from the address; out: send to it.")],
    hostname: Annotated[str, typer.Option(help="Host name in the client's open.", show_default="none")] = "",
    token_group: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP", help="Group in the user's token (groupsClaim); repeatable.", show_default="none"),
    ] = None,
) -> None:
    """Show which vhost, user group and rule decide on a client's connection and link.

    Does not contact a router, and does not check limits on the numbers of connections and links. A file without a
    policy section is checked as if vhost policies were enforced. Exit code: 0 allowed, 1 denied, 2 error.
    """
    files = [part for file in filename for part in ("--filename", str(file))]
    words = [f"--user={user}", f"--host={host}", f"--hostname={hostname}", f"--attach={attach}"]
    words += [f"--token-group={group}" for group in token_group or ()]
    # In another process: the operator does not import the router.
    command = [sys.executable, "-m", PROGRAM, *files, *words, f"--direction={direction.value}"]
    raise typer.Exit(subprocess.run(command, check=False).returncode)
