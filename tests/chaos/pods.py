"""Processes and networks of pods of the test cluster, as its machine sees them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path

from tests.cluster.command import run

PROC = Path("/proc")
PAUSE = "/pause"
RULES = (
    "add table inet chaos; "
    "add chain inet chaos in { type filter hook input priority 0; }; "
    "add chain inet chaos out { type filter hook output priority 0; }; "
)


def processes(uid: str) -> dict[int, str]:
    """The processes of a pod by their numbers on the machine: their commands."""
    marks = (f"pod{uid}", f"pod{uid.replace('-', '_')}")
    found = {}
    for folder in PROC.glob("[0-9]*"):
        try:
            groups = (folder / "cgroup").read_text()
            if any(mark in groups for mark in marks):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                if command:
                    found[int(folder.name)] = command
        except OSError:  # it has ended meanwhile
            continue
    return found


def main_process(uid: str) -> int:
    """The first process of a pod's only container. Raises LookupError while there is none."""
    ours = [number for number, command in processes(uid).items() if not command.startswith(PAUSE)]
    if not ours:
        raise LookupError(f"no process of pod {uid}")
    return min(ours, key=_started)


def send(number: int, what: signal.Signals) -> None:
    """A signal, unless the process has ended."""
    try:
        os.kill(number, what)
    except ProcessLookupError:
        return


class Partition:
    """A pod that does not hear from others, or is not heard. It ends with the pod, too."""

    def __init__(self, uid: str, others: Iterable[str], way: str) -> None:
        """`others`: their addresses; `way`: "there" drops what the pod sends, "back" what it is sent."""
        self._inside = _sandbox(uid)
        addresses = "{ " + ", ".join(others) + " }"
        rules = RULES
        if way != "back":
            rules += f"add rule inet chaos out ip daddr {addresses} drop; "
        if way != "there":
            rules += f"add rule inet chaos in ip saddr {addresses} drop; "
        self._nft(rules)

    def end(self) -> None:
        """Let it hear and be heard again."""
        if (PROC / str(self._inside)).exists():
            self._nft("delete table inet chaos")

    def _nft(self, rules: str) -> None:
        run("nsenter", "-t", str(self._inside), "-n", "nft", rules)


def _sandbox(uid: str) -> int:
    """The process that holds the network of a pod; it stays when its containers are started again."""
    return next(number for number, command in processes(uid).items() if command.startswith(PAUSE))


def _started(number: int) -> int:
    try:
        return int((PROC / str(number) / "stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 1 << 62
