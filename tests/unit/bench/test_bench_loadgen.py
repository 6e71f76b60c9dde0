"""The load generator: its command line, its result, and detection of every fault of a router."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.tools import Tools
from tests.kit.certificates import Authority
from tests.kit.ports import free_port
from tests.kit.process import section, standalone
from tests.kit.waiting import DEADLINE_S
from tests.unit.bench.bench_fake_router import RELEASED, FakeRouter, Faults
from tests.unit.bench.conftest import Loadgen

pytestmark = pytest.mark.engine_independent

# How long to wait for a message that does not come. A slow machine can keep the peer still for a second and more, and
# what it delivers then is no loss.
FOR_THE_LOST = "--drain-timeout 5"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "--port (or --send-port and --recv-port) is missing"),
        ("--port", "value missing: --port"),
        ("--port abc", "--port: not a number: abc"),
        ("--port 70000", "--port: 70000 is outside 1 ... 65535"),
        ("--port 1 --bogus", "unknown option: --bogus"),
        ("--port 1 extra", "unexpected argument: extra"),
        ("--port 1 --body 15", "--body: 15 is outside 16 ..."),
        ("--port 1 --count 1.5", "--count: not a whole number: 1.5"),
        ("--port 1 --count 500000001", "--count: 500000001 is outside"),
        ("--port 1 --seconds 601", "--seconds: 601 is outside"),
        ("--port 1 --max-seconds nan", "--max-seconds: not a number: nan"),
        ("--port 1 --mode fast", "--mode: unknown value: fast"),
        ("--port 1 --pairs 2 --multicast", "--pairs and --multicast exclude each other"),
        ("--port 1 --relay --ws", "--relay and --ws exclude each other"),
        ("--port 1 --body 1073741825", "--body: 1073741825 is outside 16 ... 1073741824"),
        ("--port 1 --relay --senders 2 --receivers 2", "--relay joins pairs only"),
        ("--port 1 --count 1 --warmup 1", "--warmup does not go with --count"),
    ],
)
def test_a_wrong_option_is_named(loadgen: Loadgen, arguments: str, words: str) -> None:
    run = loadgen(arguments)
    assert run.code == 2
    assert words in run.stderr
    assert run.events[0]["exit"] == 2


def test_help(tools: Tools) -> None:
    command = [str(tools.loadgen), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    assert "--unsettled" in done.stdout
    assert "exit: 0 good" in done.stdout


def test_no_router_there(loadgen: Loadgen) -> None:
    run = loadgen("--port 1 --connect-timeout 0.05")
    assert run.code == 3
    assert "Connection refused" in run.stderr


def test_no_such_process(loadgen: Loadgen) -> None:
    with FakeRouter() as router:
        run = loadgen(f"--port {router.port} --count 1 --pid {2**22 + 1}")
    assert run.code == 3
    assert "no process" in run.stderr


@pytest.mark.parametrize("mode", ["", "--unsettled", "--unsettled --each", "--body 3000 --unsettled", "--credit 4"])
def test_all_is_well(loadgen: Loadgen, mode: str) -> None:
    with FakeRouter() as router:
        run = loadgen(f"--port {router.port} --count 40 --pid {os.getpid()} --per-link {mode}")
    result = run.result
    assert run.code == 0
    assert result["status"] == "ok"
    assert result["sent"] == result["expected"] == result["received"] == result["messages"] == 40
    assert {result[name] for name in ("lost", "duplicated", "reordered", "corrupt", "misrouted")} == {0}
    assert result["sent_by_sender"] == result["received_by_receiver"] == [40]
    assert result["router_cpu_us_per_message"] > 0
    assert result["routers"][0]["pid"] == os.getpid()
    assert result["routers"][0]["rss_after_kib"] > 1000
    if "unsettled" in mode:
        assert (result["accepted"], result["unresolved"], result["settled_twice"]) == (40, 0, 0)


def test_multicast_counts_copies(loadgen: Loadgen) -> None:
    with FakeRouter() as router:
        run = loadgen(f"--port {router.port} --count 10 --multicast --receivers 3")
    assert run.code == 0
    assert (run.result["sent"], run.result["expected"], run.result["received"]) == (10, 30, 30)


def test_pairs_have_addresses_of_their_own(loadgen: Loadgen) -> None:
    with FakeRouter() as router:
        run = loadgen(f"--port {router.port} --count 10 --pairs 3 --per-link")
    assert run.code == 0
    assert run.result["received_by_receiver"] == [4, 3, 3]


class Swap:
    """Delivers the sixth message after the seventh."""

    def __init__(self) -> None:
        self.held: list[bytes] = []

    def __call__(self, n: int, payload: bytes) -> list[bytes]:
        if n == 5:
            self.held.append(payload)
            return []
        return [payload, *self.held] if n == 6 else [payload]


CORRUPT: dict[int, Callable[[bytes], bytes]] = {  # of the n-th message: a bit wrong, cut, empty, garbage
    5: lambda payload: payload[:-1] + bytes([payload[-1] ^ 1]),
    7: lambda payload: payload[:-1],
    9: lambda _: b"",
    11: lambda _: b"\xff" * 300,
}

ANNOTATION = bytes.fromhex("005372c10802a10178a1026f6b")  # a message-annotations section


@pytest.mark.parametrize(
    ("faults", "found"),
    [
        (Faults(deliver=lambda n, p: [] if n == 5 else [p]), {"lost": 1}),
        (Faults(deliver=lambda n, p: [p, p] if n == 5 else [p]), {"duplicated": 1}),
        (Faults(deliver=Swap()), {"reordered": 1}),
        (Faults(deliver=lambda n, p: [CORRUPT[n](p)] if n in CORRUPT else [p]), {"corrupt": 4, "lost": 4}),
    ],
    ids=["lost", "duplicated", "reordered", "corrupt"],
)
def test_a_fault_is_counted(loadgen: Loadgen, faults: Faults, found: dict[str, int]) -> None:
    with FakeRouter(faults) as router:
        run = loadgen(f"--port {router.port} --count 20 {FOR_THE_LOST}")
    assert run.code == 1
    assert run.result["status"] == "messages"
    names = ("lost", "duplicated", "reordered", "corrupt", "misrouted")
    assert {name: run.result[name] for name in names if run.result[name]} == found


def test_loss_can_be_allowed(loadgen: Loadgen) -> None:
    with FakeRouter(Faults(deliver=lambda n, p: [] if n == 5 else [p])) as router:
        run = loadgen(f"--port {router.port} --count 20 --allow-loss {FOR_THE_LOST}")
    assert (run.code, run.result["lost"]) == (0, 1)


def test_two_outcomes_for_one_delivery(loadgen: Loadgen) -> None:
    with FakeRouter(Faults(settle_times=2)) as router:
        run = loadgen(f"--port {router.port} --count 20 --unsettled")
    assert (run.code, run.result["settled_twice"]) == (1, 20)


def test_a_released_message_is_not_lost(loadgen: Loadgen) -> None:
    with FakeRouter(Faults(deliver=lambda n, p: [] if n == 5 else [p], outcome=RELEASED)) as router:
        run = loadgen(f"--port {router.port} --count 20 --unsettled")
    assert (run.code, run.result["lost"], run.result["released"]) == (0, 0, 20)


def test_annotations_are_no_corruption(loadgen: Loadgen) -> None:
    with FakeRouter(Faults(deliver=lambda _, p: [p[:7] + ANNOTATION + p[7:]])) as router:
        run = loadgen(f"--port {router.port} --count 20")
    assert (run.code, run.result["annotated"], run.result["corrupt"]) == (0, 20, 0)


def test_a_delivery_beyond_the_credit(loadgen: Loadgen) -> None:
    with FakeRouter(Faults(deliver=lambda _, p: [p] * 5)) as router:
        run = loadgen(f"--port {router.port} --count 4 --credit 4")
    assert run.code == 4
    assert "delivery beyond its credit" in run.stderr
    assert run.result["status"] == "failed"


def test_a_refused_link(loadgen: Loadgen) -> None:
    with FakeRouter(Faults(refuse="amqp:unauthorized-access")) as router:
        run = loadgen(f"--port {router.port} --count 1")
    assert run.code == 4
    assert "amqp:unauthorized-access not here" in run.stderr


def test_no_consumer_no_credit(loadgen: Loadgen) -> None:
    with FakeRouter() as first, FakeRouter() as second:
        ports = f"--send-port {first.port} --recv-port {second.port}"
        run = loadgen(f"{ports} --count 1 --connect-timeout 0 --ready-timeout 0.2")
    assert run.code == 5
    assert "has no credit within" in run.stderr


def test_the_run_is_bounded(loadgen: Loadgen) -> None:
    with FakeRouter() as router:
        run = loadgen(f"--port {router.port} --count 1000 --rate 10 --max-seconds 2")
    assert run.code == 5
    assert "--max-seconds" in run.stderr
    assert 0 < run.result["sent"] < 1000


@pytest.mark.parametrize("tick", ["0", "0.02"])
def test_a_rate_is_kept(loadgen: Loadgen, tick: str) -> None:
    with FakeRouter() as router:
        run = loadgen(f"--port {router.port} --count 40 --rate 200 --tick {tick}")
    assert run.code == 0
    assert run.result["seconds"] >= 39 / 200 - 0.021


@pytest.mark.parametrize("gone", ["detach", "close"])
def test_reach(loadgen: Loadgen, gone: str) -> None:
    with FakeRouter() as router:
        run = loadgen(f"--port {router.port} --mode reach --samples 3 --interval 0.01 --gone {gone}")
    assert run.code == 0
    assert run.result["credit_ms"]["n"] == run.result["withdrawn_ms"]["n"] == 3
    assert 0 < run.result["credit_ms"]["min"] < 5000


def test_reach_sees_early_credit(loadgen: Loadgen) -> None:
    with FakeRouter(Faults(early_credit=True)) as router:
        run = loadgen(f"--port {router.port} --mode reach --samples 2 --interval 0.01")
    assert (run.result["early_credit"], run.result["credit_ms"]["n"]) == (2, 0)


def test_round_trips(loadgen: Loadgen) -> None:
    with FakeRouter() as router:
        run = loadgen(f"--port {router.port} --mode rtt --count 50")
    assert run.code == 0
    assert run.result["rtt_us"]["n"] == 50
    assert 0 < run.result["rtt_us"]["min"] <= run.result["rtt_us"]["p50"] <= run.result["rtt_us"]["p99"]


def test_idle(loadgen: Loadgen) -> None:
    with FakeRouter() as router:
        run = loadgen(f"--port {router.port} --mode idle --connections 5 --pid {os.getpid()} --interval 0.01 --hold 0")
    assert run.code == 0
    assert (run.result["connections"], run.result["links"]) == (5, 0)
    assert run.result["rss_after_kib"] > 0


def test_progress(loadgen: Loadgen) -> None:
    with FakeRouter() as router:
        run = loadgen(f"--port {router.port} --count 3 --progress")
    assert [event["event"] for event in run.events] == ["ready", "measuring", "draining", "result"]


@pytest.mark.parametrize(
    ("secure", "mode"),
    [(False, "--count 3000 --unsettled"), (False, "--count 30 --body 100000"), (True, "--count 3000 --unsettled")],
)
def test_everything_passes_over_web_socket(loadgen: Loadgen, tmp_path: Path, secure: bool, mode: str) -> None:
    port = free_port()
    pair = Authority(tmp_path).issue("server", {"CN": "localhost"})
    profile = section("sslProfile", name="server", certFile=pair.cert, privateKeyFile=pair.key)
    tls = {"sslProfile": "server", "requireSsl": True} if secure else {}
    web = section("listener", name="web", host="127.0.0.1", port=port, http=True, authenticatePeer=False, **tls)
    router = standalone(tmp_path, extra=(profile if secure else "") + web).start()
    try:
        run = loadgen(f"--ws --port {port} {mode} {'--tls' if secure else ''}")
    finally:
        router.stop()
    assert run.code == 0
    assert run.result["sent"] == run.result["received"] == run.result["expected"]


def test_web_socket_at_a_port_of_amqp(loadgen: Loadgen, tmp_path: Path) -> None:
    router = standalone(tmp_path).start()
    try:
        run = loadgen(f"--ws --port {router.port} --count 1")
    finally:
        router.stop()
    assert run.code == 3
    assert "WebSocket: no whole answer" in run.stderr
