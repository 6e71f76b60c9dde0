"""Processes that tests start end with the test process, even if it is killed.

The kernel sees to it (PR_SET_PDEATHSIG), so nothing has to be remembered and no process has to watch. It goes by the
thread that starts them: start them in one that stays.
"""

from __future__ import annotations

_WITH_CHILDREN = "trap 'kill -KILL 0' TERM; \"$@\" & wait"


def bound(command: list[str]) -> list[str]:
    """The command line of a program that is killed when we are gone. Its process id is that of the program."""
    return ["setpriv", "--pdeathsig", "KILL", "--", *command]


def bound_with_children(command: list[str]) -> list[str]:
    """The same for a script with programs of its own; it has to be started as leader of a process group.

    SIGTERM kills all of the group, too.
    """
    return ["setpriv", "--pdeathsig", "TERM", "--", "sh", "-c", _WITH_CHILDREN, "sh", *command]
