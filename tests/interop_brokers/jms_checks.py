"""The checks of a JMS client (tests/interop/qpid_jms): built once, and all of them run in one JVM against one URL."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.brokers.broker_j import BrokerJ
from tests.kit.built import cached, call, java_libraries, need

SOURCES = Path(__file__).parent.parent / "interop" / "qpid_jms"
LIBRARIES = Path(__file__).parent.parent / "brokers" / "java" / "qpid_jms_client"
RUN_S = 330.0
_NAME = re.compile(r'checks\.put\("(\w+)"')

QUEUES: dict[str, dict[str, object]] = {
    "groups": {"messageGroupType": "STANDARD"},
    "priority": {"type": "priority", "priorities": 10},
    "delayed_delivery": {"holdOnPublishEnabled": True},
    "dead_letter": {"maximumDeliveryAttempts": 3},
}
"""What is special about the queues of some checks; these, too, have the name of the check behind the run's prefix."""
PARTS = {
    "dead_letter": ("dead",),
    "anonymous_producer": ("even", "odd"),
    "two_queues": ("from", "to"),
}
"""Further queues of some checks; messages that come back too often go to `dead`."""


@dataclass(frozen=True)
class Verdict:
    """What became of a check. `seen` has to be the same with and without routers; `wrong`: why it failed."""

    ok: bool
    seen: str
    wrong: str


def names(kind: str = "*") -> list[str]:
    """The names of all checks of a kind (Queue, Topic …), from their sources: tests are named after them.

    They are known before anything is built.
    """
    paths = sorted(SOURCES.glob(f"{kind}Checks.java"))
    return [name for path in paths for name in _NAME.findall(path.read_text("utf-8"))]


def make_queues(broker: BrokerJ, prefix: str) -> None:
    """The queues of one run."""
    for check in names():
        for part in PARTS.get(check, ()):
            broker.create("queue", f"{prefix}.{check}.{part}")
        alternate = {"alternateBinding": {"destination": f"{prefix}.{check}.dead"}}
        more = alternate if "dead" in PARTS.get(check, ()) else {}
        broker.create("queue", f"{prefix}.{check}", **QUEUES.get(check, {}), **more)


def run(url: str, elsewhere: str, prefix: str, *checks: str) -> dict[str, Verdict]:
    """Run these checks, all of them unless some are named; `elsewhere`: another way to the same broker."""
    return dict(run_each(url, elsewhere, prefix, *checks))


def run_each(url: str, elsewhere: str, prefix: str, *checks: str) -> list[tuple[str, Verdict]]:
    """The same for checks of which some may be named several times, in order."""
    rows = java("Main", url, elsewhere, prefix, *checks)
    return [(row["check"], Verdict(row["ok"], row["seen"].replace(prefix, "PREFIX"), row["wrong"])) for row in rows]


def java(main: str, *arguments: str) -> list[dict[str, Any]]:
    """Run a class of SOURCES: the lines of JSON that it prints."""
    command = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", _class_path(), main]
    done = subprocess.run(
        [*command, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@cache
def _class_path() -> str:
    need("javac", "default-jdk-headless")
    jars = f"{java_libraries(LIBRARIES)}/*"
    sources = [str(path) for path in sorted(SOURCES.iterdir())]
    javac = ["javac", "--release", "17", "-cp", jars]
    classes = cached(SOURCES, lambda folder: call([*javac, "-d", str(folder), *sources], folder))
    return f"{classes}:{jars}"
