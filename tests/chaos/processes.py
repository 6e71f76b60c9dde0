"""Where a run takes place on real processes: routers, relays between them, and clients on sockets of loopback."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.brokers.process import BrokerProcess
from tests.chaos.apart import Apart
from tests.chaos.brokers import Brokers
from tests.chaos.certificates import PROFILE, Certificates
from tests.chaos.client import Group
from tests.chaos.clients import Clients
from tests.chaos.mesh import LOOPBACK, WIRES, ChaosMesh, Settings, features
from tests.chaos.relay import Relay
from tests.chaos.schedule import APART_KINDS, TLS_KINDS, Planned
from tests.chaos.workload import PLANS, WIDE
from tests.kit.process import RouterProcess
from tests.kit.waiting import wait_until

LOOK_S = 0.02
TERMS = {"hold": "held", "delay": "delay_s", "slow": "rate"}
"""Which term of a wire a fault sets."""


class Processes:
    """Routers in a folder, which gets their configurations and logs. `within`: as of RouterProcess; `wide`: with
    brokers and the clients of `WIDE`; `apart`: in a network of their own, into which this process has gone before;
    `tls`: over TLS, apart from brokers."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        idle_s: int,
        within: Sequence[str] | None = None,
        *,
        wide: bool = False,
        apart: bool = False,
        tls: bool = False,
    ) -> None:
        self._seed, self._idle_s, self._folder = seed, idle_s, folder
        self._relay = Relay()
        self._plans = WIDE if wide else PLANS
        self._brokers = Brokers(folder, self._relay) if wide else None
        self._apart = Apart(folder, seed) if apart else None
        words = self._apart.within if self._apart is not None else lambda _: within
        self._certificates = Certificates(folder / "tls") if tls else None
        host = "0.0.0.0" if apart else LOOPBACK
        settings = Settings(idle_s, words, self._extra, host, PROFILE if tls else "")
        self._mesh = ChaosMesh(folder, self._relay, self._plans, settings)
        if self._apart is not None:
            self._apart.lead(self._relay, list(WIRES))
        self._clients: Clients | None = None

    @property
    def group(self) -> Group:
        """The clients."""
        assert self._clients is not None
        return self._clients.group

    def start(self) -> None:
        """Start the routers, then the clients."""
        if self._brokers is not None:
            self._brokers.start()
        self._mesh.start()
        ports = {name: self._relay.wires[name].port for name in self._plans}
        trusted = self._certificates.trusted if self._certificates is not None else None
        self._clients = Clients(self._plans, ports, self._seed, self._idle_s, self._folder, trusted)

    def close(self) -> None:
        """End all of it."""
        if self._clients is not None:
            self._clients.close()
        self._mesh.kill()
        if self._brokers is not None:
            self._brokers.kill()
        self._relay.close()
        if self._apart is not None:
            self._apart.close()

    def finish(self) -> None:
        """Let clients send nothing new."""
        assert self._clients is not None
        self._clients.finish()

    # ---- time
    def now(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def rest(self, seconds: float) -> None:
        """Let time pass."""
        let_pass(seconds)

    def until(self, condition: Callable[[], object], limit_s: float, what: str | Callable[[], str]) -> None:
        """Wait for a condition; AssertionError when it does not hold in time."""
        wait_until(condition, limit_s, what)

    def _extra(self, router: str) -> str:
        text = "" if self._brokers is None else features(router) + self._brokers.configuration(router)
        text += "" if self._certificates is None else self._certificates.configuration(router)
        return text if self._apart is None else text + self._apart.configuration(router)

    def _process(self, name: str) -> RouterProcess | BrokerProcess:
        if self._brokers is not None and name in self._brokers.all:
            return self._brokers.all[name]
        return self._mesh.routers[name]

    # ---- faults
    def begin(self, fault: Planned) -> None:
        """Bring it about."""
        if fault.kind in APART_KINDS:
            assert self._apart is not None, f"{fault} needs --apart"
            self._apart.begin(fault)
            return
        if fault.kind in TLS_KINDS:
            assert self._certificates is not None, f"{fault} needs --tls"
            self._certificates.begin(fault)
            return
        if fault.kind in ("kill", "restart", "pause"):
            process = self._process(fault.target)
            {"kill": process.kill, "restart": process.stop, "pause": process.pause}[fault.kind]()
            return
        wire = self._relay.wires[fault.target]
        if fault.kind == "cut":
            self._relay.cut(wire)
        elif fault.kind == "half-open":
            self._relay.halve(wire, fault.way)
        else:
            self._relay.change(wire, fault.way, **{TERMS[fault.kind]: fault.amount or True})

    def end(self, fault: Planned) -> None:
        """Take it back."""
        if fault.kind in APART_KINDS:
            assert self._apart is not None
            self._apart.end(fault)
        elif fault.kind in TLS_KINDS:
            assert self._certificates is not None
            self._certificates.end(fault)
        elif fault.kind in ("kill", "restart"):
            self._process(fault.target).start()
        elif fault.kind == "pause":
            self._process(fault.target).resume()
        else:
            self._relay.change(self._relay.wires[fault.target], "both", **{TERMS[fault.kind]: 0})

    def heal(self) -> None:
        """Take back all that is left of wires' faults."""
        self._relay.heal()

    def are_wires_whole(self) -> bool:
        """Whether there is one connection through each wire."""
        return self._relay.is_whole()

    def are_routes_restored(self) -> bool:
        """Whether connectors and routes are as at the start."""
        return self._mesh.is_restored()

    def losses(self) -> Counter[str]:
        """What was lost so far: connections, by their wires, and routes between neighbours."""
        return Counter({"route": self._mesh.route_changes()}) + Counter(end.wire for end in self._relay.ends)


def let_pass(seconds: float) -> None:
    """Let time pass."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, LOOK_S))
