"""One node: its namespaces, its link, its control groups; how it starts and how nothing of it stays."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cluster.command import CommandError, run
from tests.cluster.components import Place
from tests.cluster.paths import HERE
from tests.cluster.system import program
from tests.kit.waiting import wait_until

CGROUPS = Path("/sys/fs/cgroup")
CGROUP2_CONTROLLERS = "+cpu +cpuset +memory +pids"


class Node:
    """A node by its folder; several objects, in several processes, may speak of one node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name

    @property
    def init(self) -> int:
        """The process id of the node's first process as the machine sees it; 0 when it does not run."""
        return self._running("init.pid")

    def start(self, place: Place, components: list[dict[str, Any]]) -> None:
        """Makes the namespaces; the programs start in them, as soon as the link is there."""
        for group in _cgroups(f"{place.cgroup}/{place.name}", make=True):
            _adopt_cpus(group)
        plan = {
            "folder": str(self.folder),
            "address": place.address,
            "gateway": place.network.gateway(place.number),
            "components": components,
        }
        (self.folder / "node.json").write_text(json.dumps(plan, indent=1))
        spaces = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--propagation", "private"]
        argv = [str(program("unshare")), *spaces, sys.executable, str(HERE / "init.py"), str(self.folder / "node.json")]
        with open(self.folder / "init.log", "w") as log:
            # A session of its own: a Ctrl-C for the tests must not end it half way.
            outer = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
            )
        self._note("outer.pid", outer.pid)
        self._note("init.pid", wait_until(lambda: _first_inside(outer.pid), 180, f"{self.name}: namespaces made"))

    def link(self, place: Place, first: Node | None) -> None:
        """Lays the link: node 1's (`first` is None) to the machine, another's to node 1."""
        number, network = place.number, place.network
        name = network.link if first is None else f"node{number}"
        here = [] if first is None else ["nsenter", "-t", str(first.init), "-n"]
        run(*here, "ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(self.init))
        run(*here, "ip", "addr", "add", f"{network.gateway(number)}/30", "dev", name)
        run(*here, "ip", "link", "set", name, "up")
        via = place.address
        run(*here, "ip", "route", "add", network.pods(number), "via", via)
        if first is not None:
            run("ip", "route", "add", network.pods(number), "via", network.node(1))

    def enter(self, *argv: str, timeout_s: float = 300) -> str:
        """Runs a program of the machine inside the node's mounts and processes; its stdout."""
        return run("nsenter", "-t", str(self.init), "-m", "-p", *argv, timeout_s=timeout_s)

    def import_image(self, archive: Path) -> None:
        """Makes an image known to the node's containerd."""
        wait_until(self._containerd_answers, 120, f"{self.name}: containerd")
        self.enter("ctr", "-n", "k8s.io", "images", "import", str(archive))

    def _containerd_answers(self) -> bool:
        """Whether the node's containerd serves: its socket exists a moment before anything listens there."""
        if not (self.folder / "run/containerd/containerd.sock").exists():
            return False
        try:
            self.enter("ctr", "version")
        except CommandError:
            return False
        return True

    def pid_of(self, component: str) -> int:
        """The process id that a component has inside the node; 0 when it does not run."""
        try:
            return int((self.folder / "state" / f"{component}.pid").read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def stop_component(self, component: str) -> None:
        """Kills a component and keeps it from being started again."""
        (self.folder / "state" / f"{component}.hold").touch()
        self._kill_component(component)
        wait_until(lambda: not self.pid_of(component), 180, f"{component} ended")

    def start_component(self, component: str) -> None:
        """Lets a stopped component start again."""
        (self.folder / "state" / f"{component}.hold").unlink(missing_ok=True)
        wait_until(lambda: self.pid_of(component), 180, f"{component} started")

    def restart_component(self, component: str) -> None:
        """Kills a component; the node's init starts it again at once."""
        before = self.pid_of(component)
        self._kill_component(component)
        wait_until(lambda: self.pid_of(component) not in (0, before), 180, f"{component} started again")

    def _kill_component(self, component: str) -> None:
        pid = self.pid_of(component)
        if pid:  # asked to end, the API server would wait a minute for its watchers to leave
            self.enter("sh", "-c", f"kill -KILL {pid}")

    def kill(self) -> None:
        """Ends every process of the node at once; with them go its mounts and its link."""
        for note in ("init.pid", "outer.pid"):
            pid = self._running(note)
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self._running("init.pid") and not self._running("outer.pid"), 180, f"{self.name} ended")

    def _note(self, name: str, pid: int) -> None:
        (self.folder / name).write_text(f"{pid} {_started(pid)}")

    def _running(self, name: str) -> int:
        """The noted process, if it is still that one: numbers are used again."""
        try:
            pid, started = (self.folder / name).read_text().split()
        except (FileNotFoundError, ValueError):
            return 0
        return int(pid) if _started(int(pid)) == started else 0


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the program's name; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _started(pid: int) -> str:
    """When a process started, in ticks; empty for one that is gone or waits only to be reaped."""
    fields = _stat(pid)
    return fields[19] if fields and fields[0] != "Z" else ""


def _first_inside(outer: int) -> int:
    """The child of `unshare` once it is in its own network namespace; 0 before."""
    try:
        children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        if not children:
            return 0
        inside = os.readlink(f"/proc/{children[0]}/ns/net") != os.readlink("/proc/self/ns/net")
    except FileNotFoundError:
        return 0
    return int(children[0]) if inside else 0


def _cgroups(name: str, *, make: bool = False) -> list[Path]:
    """The control groups of that name, one a hierarchy (version 1) or one in all (version 2)."""
    if (CGROUPS / "cgroup.controllers").exists():
        if make:
            (CGROUPS / "cgroup.subtree_control").write_text(CGROUP2_CONTROLLERS)
        roots = [CGROUPS]
    else:
        folders = (folder for folder in CGROUPS.iterdir() if not folder.is_symlink())
        roots = [folder for folder in folders if (folder / "cgroup.procs").exists()]
    found = []
    for root in roots:
        group = root / name
        if make:
            group.mkdir(parents=True, exist_ok=True)
        if group.is_dir():
            found.append(group)
    return found


def _adopt_cpus(group: Path) -> None:
    """A cpuset group of version 1 starts without processors and memory: nothing could run in it."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        for level in (group.parent, group):
            own = level / name
            if own.exists() and not own.read_text().strip():
                own.write_text((level.parent / name).read_text())


def remove_cgroups(name: str) -> None:
    """Takes away the control groups of that name and all below; what has just died may hold them a moment longer."""

    def gone() -> bool:
        for group in _cgroups(name):
            for folder, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
        return not _cgroups(name)

    wait_until(gone, 180, f"control groups of {name} removed")
