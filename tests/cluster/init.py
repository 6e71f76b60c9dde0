"""The first process of a node's namespaces: mounts, network, then the node's programs, each started again when it ends.

Called as `init.py NODE.json`; standard library only. The number of a running program is in state/NAME.pid of the node's
folder, its output in log/NAME.log. As long as state/NAME.hold exists, it is not started: so tests stop one for a while.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

PAUSE_S = 0.05
OWN_FOLDERS = {
    "run": "/run",
    "kubelet": "/var/lib/kubelet",
    "containerd": "/var/lib/containerd",
    "cni-state": "/var/lib/cni",
    "var-log": "/var/log",
}
"""What the node must not share with the machine: folder of the node -> where it is seen."""

ENVIRONMENT = {**os.environ, "GOGC": "400"}
"""Of the programs, which are Go: collecting garbage less often saves a sixth of the API server's CPU time."""

SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""Settings of the whole machine that kubelet insists on: it gets files to write them to that set nothing."""


def main() -> None:
    """Never returns: the namespaces live as long as this process."""
    node = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(node["folder"])
    mounts(folder)
    network(node)
    supervise(folder, node["components"])


def sh(*argv: str) -> None:
    """Runs a program that must not fail."""
    subprocess.run(argv, check=True)


def mounts(folder: Path) -> None:
    """A /proc of the new process namespace, and own folders over the machine's."""
    sh("mount", "--make-rprivate", "/")
    sh("mount", "-t", "proc", "proc", "/proc")
    for name, value in SYSCTLS.items():
        stand_in = folder / "sysctl" / name
        stand_in.parent.mkdir(parents=True, exist_ok=True)
        stand_in.write_text(value + "\n")
        sh("mount", "--bind", str(stand_in), f"/proc/sys/{name}")
    for name, seen in OWN_FOLDERS.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        Path(seen).mkdir(parents=True, exist_ok=True)
        sh("mount", "--bind", str(folder / name), seen)
    # Pods may ask for mounts to be passed on in both directions.
    sh("mount", "--make-rshared", "/")


def network(node: dict[str, Any]) -> None:
    """Waits for the link that the driver lays, and configures this end of it."""
    while "eth0:" not in Path("/proc/net/dev").read_text():
        time.sleep(PAUSE_S)
    sh("ip", "link", "set", "lo", "up")
    sh("ip", "addr", "add", f"{node['address']}/30", "dev", "eth0")
    sh("ip", "link", "set", "eth0", "up")
    sh("ip", "route", "add", "default", "via", node["gateway"])
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")


def answers(url: str) -> bool:
    """Whether a GET is answered with 200. Whose certificate it is does not matter here: it is our own process."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=2, context=context) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def present(needs: set[str]) -> set[str]:
    """Those of the needs that are there: sockets that exist, addresses that answer."""
    return {need for need in needs if (answers(need) if need.startswith("https:") else Path(need).exists())}


class Program:
    """One supervised program."""

    def __init__(self, folder: Path, entry: dict[str, Any]) -> None:
        self.name: str = entry["name"]
        self.needs: set[str] = set(entry["needs"])
        self.pid = 0
        self._argv: list[str] = entry["argv"]
        self._pid_file = folder / "state" / f"{self.name}.pid"
        self._hold = folder / "state" / f"{self.name}.hold"
        self._log = folder / "log" / f"{self.name}.log"
        self._pid_file.parent.mkdir(exist_ok=True)
        self._log.parent.mkdir(exist_ok=True)

    @property
    def due(self) -> bool:
        """Whether it should be started."""
        return not self.pid and not self._hold.exists()

    def start(self) -> None:
        """Starts it. Not through `subprocess`, which would reap it behind our back."""
        with open(self._log, "a") as log:
            log.write(f"+ {' '.join(self._argv)}\n")
            log.flush()
            actions = [(os.POSIX_SPAWN_DUP2, log.fileno(), 1), (os.POSIX_SPAWN_DUP2, log.fileno(), 2)]
            self.pid = os.posix_spawnp(self._argv[0], self._argv, ENVIRONMENT, file_actions=actions)
        self._pid_file.write_text(str(self.pid))

    def ended(self, status: int) -> None:
        """Notes the end."""
        self.pid = 0
        self._pid_file.unlink(missing_ok=True)
        with open(self._log, "a") as log:
            log.write(f"+ ended with status {status}\n")


def supervise(folder: Path, entries: list[dict[str, Any]]) -> None:
    """Starts what is due and reaps what has ended, orphans too, for ever."""
    programs = [Program(folder, entry) for entry in entries]
    while True:
        due = [program for program in programs if program.due]
        there = present(set().union(*(program.needs for program in due)))
        for program in due:
            if program.needs <= there:
                program.start()
        reap(programs)
        time.sleep(PAUSE_S)


def reap(programs: list[Program]) -> None:
    """Takes note of every child that has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        for program in programs:
            if program.pid == pid:
                program.ended(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
