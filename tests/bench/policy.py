"""What access policy costs: messages of two routers alike but for policy, loaded in turn, and decisions on attaches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.bench.routers import RouterSpec, running
from tests.bench.scenarios import Bench, Scenario, Target, need_start
from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.policy.decide import Request
from waymesh_router.policy.enforcement import Client, Enforcement
from waymesh_router.policy.links import LinkRequest
from waymesh_router.policy.vhosts import parse_policy

ROUNDS: Final = 6
QUICK_ROUNDS: Final = 1
TIMES: Final = ("--warmup", "0.1", "--seconds", "0.9", "--at-least", "1000", "--unsettled")
USER: Final = "anonymous"
LOADS: Final[Mapping[str, tuple[str, ...]]] = {
    "plain": (),
    "user": ("--user-id", USER),
    "anonymous": ("--user-id", USER, "--anonymous"),
}
ON: Final[tuple[tuple[str, Mapping[str, object]], ...]] = (
    ("policy", {"enableVhostPolicy": "yes", "defaultVhost": "$default"}),
    (
        "vhost",
        {
            "hostname": "$default",
            "allowUnknownUser": "yes",
            "maxMessageSize": 1_000_000,
            "groups": "{\n$default: {\nremoteHosts: *\nsources: *\ntargets: bench\nallowAnonymousSender: true\n}\n}",
        },
    ),
)
ATTACHES: Final = 20_000
REQUESTS: Final[Mapping[str, LinkRequest]] = {
    "name": LinkRequest(False, ("target19",)),
    "pattern": LinkRequest(True, ("orders.eu.17.new",)),
    "denied": LinkRequest(True, ("other",)),
}


def _run(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    with running(bench.launcher, RouterSpec("off"), RouterSpec("on", extra=ON)) as routers:
        off, on = (Target((router.pid,), router.port, router.port) for router in routers)
        for _ in range(QUICK_ROUNDS if bench.quick else ROUNDS):
            for load, words in LOADS.items():  # off, on, on, off, for what drifts meanwhile
                runs = [bench.load(target, *TIMES, *words) for target in (off, on, on, off)]
                costs = [float(run["router_cpu_us_per_message"]) for run in runs]
                yield {f"policy-{load}": 100 * (costs[1] + costs[2]) / (costs[0] + costs[3]) - 100}


def _run_attach(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    for _ in range(bench.repetitions):
        yield {f"policy-attach-{name}": _decision_us(request) for name, request in REQUESTS.items()}


def _decision_us(request: LinkRequest) -> float:
    """Microseconds of CPU for a decision on an attach, in this process: this part is never compiled."""
    enforcement = Enforcement(parse_policy({"enableVhostPolicy": True}, [_vhost()], PatternTree[str], lambda _: []))
    opened = enforcement.connect(Request("alice", "127.0.0.1", "bench"), 0.0)
    assert isinstance(opened, tuple)
    client: Client = opened[0]
    before = time.process_time()
    for _ in range(ATTACHES):
        if enforcement.attach(client, request) is None:
            enforcement.detached(client, request.receiver)
    return (time.process_time() - before) * 1e6 / ATTACHES


def _vhost() -> dict[str, Any]:
    """A group with 20 exact targets and 20 patterns of sources."""
    names = ",".join(f"target{number}" for number in range(20))
    patterns = ",".join(f"orders.*.{number}.#" for number in range(20))
    group = {"users": "alice", "remoteHosts": "*", "targets": names, "sourcePattern": patterns}
    return {"hostname": "bench", "groups": {"staff": group}}


MESSAGES: Final = Scenario("policy-on", _run)
SCENARIOS: Final = (MESSAGES, Scenario("policy-attach", _run_attach))
