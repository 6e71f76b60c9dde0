"""A mesh of real routers under a workload of which everything is known, with a fault of each sort.

    python -m tests.analytics.mesh FOLDER        # makes examples/telemetry anew

A – B – C, a container beside A that an autolink leads to. Every delivery is sampled. Phases:
1. MATRIX: what is sent from where to where, how large, and how it ends.
2. At the same time, for longer than ten seconds: a consumer that keeps three deliveries, one that gives no credit while
   five more wait, an autolink that is lost LOST times, a link that is refused, C killed and started again.
3. The rest is taken, everything ends in order.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.kit.clients import Client, Receiver, Sender
from tests.kit.mesh import Mesh, known_routers, wait_address
from tests.kit.outcomes import Sent
from tests.kit.process import RouterProcess, section, standalone
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

LOST = 3
"""So often the autolink loses its connection."""
KEPT, CREDIT, WAITING = 3, 2, 5
FAULT_S = 60.0
CLOSED = "closed"
FLAPPING, STUCK, SLOW = "flappy", "stuck", "slow"
PUBLISHED_S = 9.0
"""What a router holds back for lack of lines to write, at most five seconds, and some more."""


@dataclass(frozen=True, slots=True)
class Flow:
    """So many messages from a client at one router to one at another, and how many of them are not accepted. `to`: the
    receiver's container-id."""

    address: str
    ingress: str
    egress: str
    count: int
    presettled: bool = False
    rejected: int = 0
    released: int = 0
    modified: int = 0
    to: str = ""

    @property
    def producer(self) -> str:
        """Its container-id."""
        return f"producer-{self.ingress}"

    @property
    def consumer(self) -> str:
        """Its container-id."""
        return self.to or f"consumer-{self.egress}"

    @property
    def accepted(self) -> int:
        """How many end so."""
        return 0 if self.presettled else self.count - self.rejected - self.released - self.modified


MATRIX = (
    Flow("orders", "A", "C", 40, rejected=4),
    Flow("orders", "B", "C", 20),
    Flow("prices", "A", "B", 30, released=2, modified=3),
    Flow("prices", "C", "B", 10),
    Flow("local", "B", "B", 15),
    Flow("ticks", "C", "A", 25, presettled=True),
)


class Work:
    """A started mesh, and its clients."""

    def __init__(self, folder: Path, spool: Path, stack: ExitStack) -> None:
        self.stack = stack
        self.broker = standalone(folder, "broker")
        self.broker.start()
        stack.callback(self.broker.stop)
        telemetry = {"intervalSeconds": 1, "sampleOneIn": 1, "samplesPerSecond": 1_000_000}
        extra = section("telemetry", path=spool, mesh="example", **telemetry)
        extra += section("address", prefix=CLOSED, distribution="unavailable")
        self.mesh = Mesh(folder, 3, "line", extra)
        a = self.mesh["A"].config_path
        port = self.broker.port
        connector = section("connector", name="broker", host="127.0.0.1", port=port, role="route-container")
        autolink = section("autoLink", name=FLAPPING, address="queue", direction="in", connection="broker")
        a.write_text(a.read_text(encoding="utf-8") + connector + autolink, encoding="utf-8")
        stack.callback(self.mesh.stop)
        self.mesh.start()
        self.clients: dict[str, Client] = {}

    def client(self, container: str) -> Client:
        """The client with this container-id, `…-A` at router A."""
        if container not in self.clients:
            router = self.mesh[container[-1]]
            client = Client(router.url, container_id=container)
            self.clients[container] = client
            self.stack.callback(client.close)
        return self.clients[container]

    def leave(self, router: str) -> None:
        """Close the clients at a router."""
        for container in [name for name in self.clients if name.endswith(router)]:
            self.clients.pop(container).close()

    # ---- phases
    def send_matrix(self) -> None:
        """All of MATRIX, one flow after the other."""
        receivers: dict[tuple[str, str], Receiver] = {}
        for flow in MATRIX:
            key = (flow.consumer, flow.address)
            if key not in receivers:
                receivers[key] = self.client(flow.consumer).receiver(flow.address, credit=100)
        for flow in MATRIX:
            for router in {flow.ingress} - {flow.egress}:
                wait_address(self.mesh[router], flow.address, remote=1)
            sender = self.client(flow.producer).sender(flow.address, presettled=flow.presettled)
            sent = [sender.send(f"{flow.address} {number}") for number in range(flow.count)]
            _end(flow, receivers[flow.consumer, flow.address], sent)
            sender.close()
        for receiver in receivers.values():
            receiver.close()

    def refused(self) -> None:
        """A link that the router refuses."""
        link = self.client("producer-A").sender(CLOSED, wait=False)
        assert link.wait_detached()

    def faults(self) -> None:
        """Stuck, slow, flapping and killed, all at once."""
        stuck = self.client("keeper-B").receiver(STUCK, credit=10)
        slow = self.client("miser-B").receiver(SLOW, credit=CREDIT)
        for address in (STUCK, SLOW):
            wait_address(self.mesh["A"], address, remote=1)
        kept = _send(self.client("producer-A").sender(STUCK), KEPT)
        waiting = _send(self.client("producer-A").sender(SLOW), CREDIT + WAITING)
        held = stuck.take(KEPT, accept=False)
        slow.take(CREDIT)
        began = time.monotonic()
        self.flap()
        wait_until(lambda: time.monotonic() - began > PUBLISHED_S, FAULT_S)
        self.kill_c()
        wait_until(lambda: _is_stuck(self.mesh["B"]), FAULT_S, "a stuck delivery")
        wait_until(lambda: _without_credit_s(self.mesh["B"]) >= 12, FAULT_S, "a link without credit")
        for received in held:
            received.accept()
        slow.flow(WAITING)
        slow.take(WAITING)
        assert {sent.outcome() for sent in (*kept, *waiting)} == {"accepted"}

    def flap(self) -> None:
        """Have the container beside A end the autolink's connection, again and again."""
        with ManagementClient(self.mesh["A"].url) as near, ManagementClient(self.broker.url) as far:
            for _ in range(LOST):
                wait_until(lambda: _states(near) == ["active"], FAULT_S, lambda: f"{_states(near)}")
                (lost,) = _connections(far)
                far.update({"adminStatus": "deleted"}, "connection", identity=lost)
                # The router is back within some milliseconds: that it was away is seen by its next connection.
                wait_until(lambda lost=lost: _connections(far) - {lost}, FAULT_S, "the next connection")  # type: ignore[misc]
                wait_until(lambda lost=lost: lost not in _connections(far), FAULT_S, "the end of it")  # type: ignore[misc]
            wait_until(lambda: _states(near) == ["active"], FAULT_S, "the autolink")

    def kill_c(self) -> None:
        """Kill C, start it again when the others have noticed."""
        self.leave("C")
        self.mesh["C"].kill()
        wait_until(lambda: known_routers(self.mesh["A"]) == {"A", "B"}, FAULT_S, "the loss of C")
        self.mesh["C"].start()
        self.mesh.wait_converged()


def _send(sender: Sender, count: int) -> list[Sent]:
    sender.wait_credit(count)
    return [sender.send(str(number), wait=False) for number in range(count)]


def _end(flow: Flow, receiver: Receiver, sent: list[Sent]) -> None:
    """The outcomes that the flow is to have."""
    arrived = receiver.take(flow.count, accept=False)
    ends = ["reject"] * flow.rejected + ["release"] * flow.released + ["modify"] * flow.modified
    for received, end in zip(arrived, [*ends, *["accept"] * flow.count]):
        if not flow.presettled:
            getattr(received, end)()
    for each in [] if flow.presettled else sent:
        each.outcome()


def _states(client: ManagementClient) -> list[str]:
    return [str(row["operStatus"]) for row in client.query("router.config.autoLink", ["operStatus"])]


def _connections(broker: ManagementClient) -> set[str]:
    """The identities of the connections from A."""
    rows = broker.query("connection", ["identity", "container"])
    return {str(row["identity"]) for row in rows if row["container"] == "A"}


def _is_stuck(router: RouterProcess) -> bool:
    with ManagementClient(router.url) as client:
        return any(row["deliveriesStuck"] for row in client.query("router.link", ["deliveriesStuck"]))


def _without_credit_s(router: RouterProcess) -> int:
    with ManagementClient(router.url) as client:
        rows = client.query("router.link", ["owningAddr", "zeroCreditSeconds"])
    return max(int(row["zeroCreditSeconds"] or 0) for row in rows if str(row["owningAddr"]).endswith(SLOW))


def run(folder: Path, spool: Path) -> None:
    """The whole of it: what the routers export is in `spool` then."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        work = Work(folder, spool, stack)
        work.send_matrix()
        work.refused()
        work.faults()


def main() -> None:
    """Replace the export in a folder."""
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as made:
        run(Path(made) / "routers", Path(made) / "spool")
        shutil.rmtree(target / "v1", ignore_errors=True)
        shutil.copytree(Path(made) / "spool", target, dirs_exist_ok=True)


if __name__ == "__main__":
    main()
