"""The programs of the system that a cluster needs: found, installed by apt where that is possible, or named."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from tests.cluster.command import CommandError, run
from tests.cluster.paths import locked, say

PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "nft": "nftables",
    "iptables": "iptables",
    "ipset": "ipset",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "cc": "gcc",
    "busybox": "busybox-static",
}
"""Program -> Debian package."""

CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
CNI_PACKAGE = "containernetworking-plugins"
SEARCH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


class Unsuitable(Exception):
    """This machine cannot run the cluster; the text says why and what to do."""


def program(name: str) -> Path:
    """The path of a program that `ensure` has seen to."""
    found = shutil.which(name, path=SEARCH)
    if not found:
        raise Unsuitable(f"{name} is missing (Debian and Ubuntu: apt-get install {PROGRAMS.get(name, name)})")
    return Path(found)


def cni_folder() -> Path | None:
    """The folder with the CNI plugins `bridge`, `host-local` and `loopback`."""
    for folder in CNI_FOLDERS:
        if all((folder / plugin).exists() for plugin in ("bridge", "host-local", "loopback")):
            return folder
    return None


def missing_packages() -> list[str]:
    """Debian packages of what is not there."""
    wanted = {package for name, package in PROGRAMS.items() if not shutil.which(name, path=SEARCH)}
    if cni_folder() is None:
        wanted.add(CNI_PACKAGE)
    return sorted(wanted)


def obstacle() -> str | None:
    """Why this machine can have no cluster, whatever is installed; None when it can."""
    if os.uname().sysname != "Linux":
        return "the cluster runs on Linux only"
    if os.geteuid() != 0:
        return "the cluster needs root: it makes namespaces, mounts and network links"
    if not shutil.which("go", path=SEARCH):
        return "the Go toolchain is missing: Kubernetes is built from its modules"
    return None


APT_S, APT_AGAIN_S = 300.0, 2.0
"""How long to wait for another program to release the locks of apt, as automatic updates after a boot hold them."""
_LOCKED = ("Could not get lock", "Unable to acquire the dpkg frontend lock", "Unable to lock")


def _apt(until: float, packages: list[str], *words: str) -> None:
    """Run apt-get, again and again while another program has locked it, until this moment of the monotonic clock."""
    quiet, waited = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}, False
    while True:
        try:
            run("apt-get", *words, env=quiet, timeout_s=600)
            return
        except CommandError as error:
            locks = [line for line in error.output.splitlines() if any(text in line for text in _LOCKED)]
            if not locks:
                raise
        if time.monotonic() >= until:
            raise Unsuitable(
                f"another program has locked apt for {APT_S:g} s ({locks[0]}); wait for it, or install first: "
                f"{' '.join(packages)}"
            )
        if not waited:
            say(f"another program has locked apt: waiting up to {APT_S:g} s ({locks[0]})")
            waited = True
        time.sleep(APT_AGAIN_S)


def ensure() -> None:
    """Everything that is needed is installed, or Unsuitable says what is not."""
    reason = obstacle()
    if reason:
        raise Unsuitable(reason)
    with locked("apt"):
        packages = missing_packages()
        if not packages:
            return
        if not shutil.which("apt-get"):
            raise Unsuitable(f"install first (named as Debian does): {' '.join(packages)}")
        say(f"apt-get install {' '.join(packages)}")
        until = time.monotonic() + APT_S
        _apt(until, packages, "update", "-qq")
        _apt(until, packages, "install", "-y", "-qq", "--no-install-recommends", *packages)
        left = missing_packages()
        if left:
            raise Unsuitable(f"still missing after apt-get install: {' '.join(left)}")
