"""The targets of fuzzing. A target raises for a finding and returns otherwise.

An engine input is a byte that chooses how far the connection has got before, then what the peer sends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fuzz.finding import Finding
from tests.fuzz.parties import Parties
from tests.fuzz.renewed import RUNS, Renewed
from tests.kit import frames
from tests.kit.frames import AMQP
from tests.kit.pump import CHUNKS, Hub, Peer, core_hub
from waymesh_amqp.sasl import SaslServer, UserFile, make_line
from waymesh_amqp.settings import ConnectionSettings
from waymesh_router.core.core import Core
from waymesh_schema.config import ConfigError, parse_conf, parse_json

OPENED = AMQP + frames.open_()
MAPPED = OPENED + frames.begin()
SENDER = MAPPED + frames.attach_sender("s", 0)
LINKED = SENDER + frames.attach_receiver("r", 1, address="x") + frames.credit(50, 1)
TINY = AMQP + frames.open_(max_frame_size=512) + frames.begin(incoming_window=1)
STAGES = (b"", AMQP, OPENED, MAPPED, SENDER, LINKED, LINKED + frames.attach_sender("m", 2, address="m"), TINY, None)
"""None: a connection that wants SASL first."""


class Engine:
    """A core with two clients that must not notice anything."""

    def __init__(self) -> None:
        self.users = UserFile.parse(make_line("ann", "secret"))
        self.hub: Hub = core_hub()
        core: Any = self.hub.handler
        for prefix in ("m", "closest"):
            distribution = "multicast" if prefix == "m" else prefix
            core.address_table.add_pattern(
                {"pattern": None, "prefix": prefix, "distribution": distribution, "ingressPhase": 0, "egressPhase": 0}
            )
        self.runs = 0
        self.consumer = self.hub.peer().open().begin()
        self.consumer.send(frames.attach_receiver(address="healthy"), frames.credit(RUNS + 1))
        self.consumer.send(frames.attach_receiver("q", 1, address="q"), frames.credit(1000, 1))
        self.consumer.send(frames.attach_receiver("m", 2, address="m"), frames.credit(3, 2))
        self.producer = self.hub.peer().open().begin()
        self.producer.send(frames.attach_sender(address="healthy"))

    def run(self, first: int, data: bytes) -> None:
        stage = STAGES[first % len(STAGES)]
        rogue = self.rogue(stage)
        rogue.end.chunk = CHUNKS[len(data) % len(CHUNKS)] if first & 64 and len(data) < 300 else 10000
        if stage:
            rogue.send(stage)
        rogue.send(data)
        if first & 128:
            self.hub.tick(0.5)
            rogue.conn.close("amqp:connection:forced", "by the router")
        if rogue.conn.done and not rogue.conn.over:
            raise Finding("done, but not over")
        rogue.kill()
        self.check()

    def rogue(self, stage: bytes | None) -> Peer:
        if stage is not None:
            return self.hub.peer()
        sasl = SaslServer(("ANONYMOUS", "PLAIN", "SCRAM-SHA-256"), self.users)
        return self.hub.peer(ConnectionSettings("R", sasl=sasl, require_sasl=True))

    def check(self) -> None:
        """The healthy pair still works, and the rogue left nothing behind."""
        self.consumer.take()
        self.producer.send(frames.transfer(self.runs, frames.message(b"well"), settled=True))
        self.runs += 1
        arrived = [f.payload for f in self.consumer.frames() if isinstance(f, frames.Seen) and f.payload]
        if arrived != [frames.message(b"well")]:
            raise Finding(f"the healthy pair got {arrived}, {self.consumer.conn.error}, {self.producer.conn.error}")
        self.producer.take()
        core = self.hub.handler
        assert isinstance(core, Core)
        if set(core.addresses) != {"M0healthy", "M0q", "M0m"}:
            raise Finding(f"addresses left: {sorted(core.addresses)}")
        if len(core.links) != 4 or len(core.connections) != 2:
            raise Finding(f"{len(core.links)} links and {len(core.connections)} connections left")
        self.hub.ends = {key: end for key, end in self.hub.ends.items() if not end.conn.over}
        core.closing.clear()


def config(data: bytes) -> None:
    """The configuration reader: an error of its own, or entries."""
    text = data.decode("utf-8", "replace")
    for parse in (parse_conf, parse_json):
        try:
            parse(text, "fuzz")
        except ConfigError as e:
            if not str(e).startswith("fuzz"):
                raise Finding(f"an error that does not name its file: {e}") from e


def target(name: str) -> Callable[[bytes], None]:
    """The target of that name: engine, parties or config."""
    if name == "config":
        return config
    return Renewed(Engine) if name == "engine" else Renewed(Parties)
