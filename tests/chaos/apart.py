"""Faults that need a network and file systems of their own: this process starts itself again in new namespaces.

All of it ends with its processes: rules, devices and mounts are in the namespaces only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.chaos.clocks import Clock
from tests.chaos.packets import DEVICE, PacketRelay, Way, host
from tests.chaos.relay import Relay
from tests.chaos.schedule import Planned
from tests.kit.process import section

NAMESPACES = ["unshare", "--map-root-user", "--net", "--mount", "--"]
MARK = "WAYMESH_CHAOS_APART"
DISK_BYTES = 4_000_000
FIRST = 2
LOSS = 0.07
"""Of far ways, as over satellites."""


def enter(words: list[str]) -> None:
    """Go on in new namespaces, with `words` as the arguments of Python."""
    if os.environ.get(MARK) != "1":
        os.environ[MARK] = "1"
        os.execvp(NAMESPACES[0], [*NAMESPACES, sys.executable, *words])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


class Apart:
    """What is around the routers of a run: the packets of wires, disks and clocks."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._packets = PacketRelay(seed)
        self._numbers: dict[str, int] = {}
        self._ports: dict[str, int] = {}
        self._dropped: dict[Planned, list[str]] = {}
        """The rules of faults that last."""
        self._clocks: dict[str, Clock] = {}
        _run("nft", "add table inet chaos; add chain inet chaos in { type filter hook input priority 0; }")

    def lead(self, relay: Relay, wires: list[str]) -> None:
        """Let the packets of these wires go through the device."""
        for number, name in enumerate(wires, FIRST):
            wire = relay.wires[name]
            wire.host = host(number)
            self._numbers[name], self._ports[name] = number, wire.target
            self._packets.ways[number] = Way()

    def within(self, router: str) -> list[str]:
        """The words before a router's command: its clock."""
        return self._clock(router).within()

    def configuration(self, router: str) -> str:
        """A log and telemetry on a small disk of its own."""
        disk = self._disk(router)
        disk.mkdir()
        _run("mount", f"-t tmpfs -o size={DISK_BYTES} chaos {disk}")
        return section("log", module="SERVER", enable="debug+", outputFile=disk / "server.log") + section(
            "telemetry", path=disk, sampleOneIn=1
        )

    def begin(self, fault: Planned) -> None:
        """Bring a fault about."""
        match fault.kind:
            case "loss" | "partition":
                self._dropped[fault] = self._rules(fault)
                self._set_rules()
            case "far":
                self._packets.ways[self._numbers[fault.target]] = Way(fault.amount, 0.0, LOSS)
            case "reorder":
                self._packets.ways[self._numbers[fault.target]] = Way(0.0, fault.amount)
            case "rate":
                _run("tc", f"qdisc replace dev {DEVICE} root tbf rate {fault.amount:.0f}bit burst 16kb latency 400ms")
            case "full":
                _fill(self._disk(fault.target) / "full")
            case "clock":
                self._clock(fault.target).set(fault.amount)

    def end(self, fault: Planned) -> None:
        """Take it back."""
        match fault.kind:
            case "loss" | "partition":
                del self._dropped[fault]
                self._set_rules()
            case "far" | "reorder":
                self._packets.ways[self._numbers[fault.target]] = Way()
            case "rate":
                _run("tc", f"qdisc delete dev {DEVICE} root")
            case "full":
                (self._disk(fault.target) / "full").unlink()
            case "clock":
                self._clock(fault.target).set(0.0)

    def close(self) -> None:
        """End the packets' thread; the rest ends with the namespaces."""
        self._packets.close()

    def _disk(self, router: str) -> Path:
        return self._folder / f"disk-{router}"

    def _clock(self, router: str) -> Clock:
        if router not in self._clocks:
            self._clocks[router] = Clock(self._folder / f"clock-{router}")
        return self._clocks[router]

    def _rules(self, fault: Planned) -> list[str]:
        """The conditions of a wire's packets, or of all wires of a router, seen from the router: `there` is what it
        sends."""
        if fault.kind == "loss":
            ways = [fault.way] if fault.way != "both" else ["there", "back"]
            share = f" numgen random mod 1000 < {fault.amount * 1000:.0f}"
            return [self._packets_of(fault.target, way) + share for way in ways]
        rules: list[str] = []
        for name in self._numbers:
            caller, _, callee = name.partition("-")
            if fault.target in (caller, callee):
                outward, inward = ("there", "back") if fault.target == caller else ("back", "there")
                if fault.way != "back":
                    rules.append(self._packets_of(name, outward))
                if fault.way != "there":
                    rules.append(self._packets_of(name, inward))
        return rules

    def _packets_of(self, wire: str, way: str) -> str:
        side = "dport" if way == "there" else "sport"
        return f"ip saddr {host(self._numbers[wire])} tcp {side} {self._ports[wire]}"

    def _set_rules(self) -> None:
        lines = ["flush chain inet chaos in"]
        lines += [f"add rule inet chaos in {rule} drop" for rules in self._dropped.values() for rule in rules]
        _run("nft", "; ".join(lines))


def _run(program: str, words: str) -> None:
    arguments = [words] if program == "nft" else words.split()
    subprocess.run([program, *arguments], check=True)


def _fill(path: Path) -> None:
    """Write until nothing more fits."""
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 512):
            try:
                while file.write(b"\0" * size) == size:
                    pass
            except OSError:
                continue
