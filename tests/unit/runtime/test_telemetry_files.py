"""A router process with telemetry: its files and metrics agree with the sent messages."""

from __future__ import annotations

import gzip
import http.client
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509 import load_pem_x509_certificate
from prometheus_client.parser import text_string_to_metric_families
from proton import ConnectionException
from proton.utils import BlockingConnection

from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import DEADLINE_S, wait_until
from waymesh_client.management import ManagementClient
from waymesh_schema.metrics import METRICS
from waymesh_schema.telemetry import KINDS, parse_path

StartRouter = Callable[..., RouterProcess]
COUNT = 50


def records(root: Path) -> dict[str, list[dict[str, Any]]]:
    """All records of all finished files, by kind, in the order of seq. Checks that file names match the contents."""
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for path in root.rglob("*.gz"):
        name = parse_path(path.relative_to(root).as_posix())
        assert name is not None, f"{path}: not finished"
        with gzip.open(path, "rt") as file:
            lines = [json.loads(line) for line in file]
        assert (len(lines), lines[0]["seq"], lines[0]["router"]) == (name.count, name.first, name.router)
        assert all(list(line) == [field.name for field in KINDS[name.kind].fields] for line in lines)
        found[name.kind] += lines
    for lines in found.values():
        lines.sort(key=lambda line: line["seq"])
        assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1)), "nothing is missing"
    return found


def finished(root: Path) -> int:
    """How many records of deliveries the files have; 0 while one is not finished."""
    names = [parse_path(path.relative_to(root).as_posix()) for path in root.rglob("*.gz")]
    return sum(name.count for name in names if name and name.kind == "delivery") if all(names) else 0


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def telemetry(spool: Path, **more: object) -> str:
    settings = {"path": spool, "mesh": "team/orders", "intervalSeconds": 1, "sampleOneIn": 1, **more}
    return section("telemetry", **settings)


def send(router: RouterProcess, count: int = COUNT) -> None:
    with Client(router.url) as client:
        receiver = client.receiver("orders", credit=count)
        sender = client.sender("orders")
        for number in range(count):
            sent = sender.send(str(number), wait=False)
            message = receiver.next()
            message.reject() if number % 5 == 0 else message.accept()
            assert sent.outcome() == ("rejected" if number % 5 == 0 else "accepted")


def test_files_of_a_router_that_ends(start_router: StartRouter, spool: Path) -> None:
    router = start_router("A", telemetry(spool))
    send(router)
    assert router.stop() == 0
    found = records(spool)
    assert Counter((line["half"], line["outcome"]) for line in found["delivery"]) == {
        ("in", "accepted"): 40,
        ("in", "rejected"): 10,
        ("out", "accepted"): 40,
        ("out", "rejected"): 10,
    }
    assert all(line["settle_us"] >= 0 and line["mesh"] == "team/orders" for line in found["delivery"])
    (link,) = [line for line in found["link"] if line["event"] == "detach" and line["dir"] == "in"]
    assert (link["deliveries"], link["accepted"], link["rejected"]) == (50, 40, 10)
    last = found["router"][-1]
    assert (last["accepted"], last["rejected"], last["ingress"], last["egress"]) == (40, 10, 50, 50)
    assert last["cpu_us"] > 0
    assert last["rss"] > 10 << 20
    assert last["records"]["delivery"] == 100
    assert {line["event"] for line in found["connection"]} >= {"open", "close"}


def test_telemetry_is_switched_on_and_off_while_the_router_runs(start_router: StartRouter, spool: Path) -> None:
    router = start_router("A")
    with ManagementClient(router.url) as management:
        management.update({"path": str(spool), "sampleOneIn": 1}, "telemetry")
        send(router, 5)
        assert management.read("telemetry")["records"] >= 10
        management.update({"path": ""}, "telemetry")
        wait_until(lambda: finished(spool) == 10, what="its files")
        send(router, 5)
        assert management.read("telemetry")["records"] == 0
    assert len(records(spool)["delivery"]) == 10


def test_sampling_is_changed_while_messages_flow(start_router: StartRouter, spool: Path) -> None:
    """Numbering continues: for readers of the files it is one start of the router."""
    router = start_router("A", telemetry(spool))
    send(router, 5)
    with ManagementClient(router.url) as management:
        for one_in in (0, 1, 0):
            management.update({"sampleOneIn": one_in}, "telemetry")
            send(router, 5)
    router.stop()
    found = records(spool)
    assert len(found["delivery"]) == 20
    assert {line["boot"] for lines in found.values() for line in lines} == {found["router"][0]["boot"]}
    assert [line["ingress"] for line in found["address"] if line["address"] == "orders"][-1] == 20
    assert not any(found["router"][-1]["dropped"].values())


def test_what_a_listener_refuses_is_a_denial(tmp_path: Path, spool: Path) -> None:
    closed = free_port()
    listener = section("listener", host="127.0.0.1", port=closed, saslMechanisms="PLAIN", allowInsecurePlain=True,
                    authenticatePeer=True)  # fmt: skip
    users = tmp_path / "test.users"
    users.write_text("alice:{plain}secret\n", encoding="utf-8")
    text = section("router", id="A", saslConfigDir=tmp_path, saslConfigName="test") + telemetry(spool) + listener
    router = RouterProcess(tmp_path, "A", text, [closed]).start()
    with pytest.raises(ConnectionException):
        BlockingConnection(
            f"127.0.0.1:{closed}", user="mallory", password="x", allowed_mechs="PLAIN", allow_insecure_mechs=True
        )
    router.stop()
    (denied,) = [line for line in records(spool)["event"] if line["event"] == "policy.denied"]
    assert denied["detail"]["kind"] == "connection"
    assert denied["detail"]["condition"] == "amqp:unauthorized-access"


def test_metrics_are_those_of_the_table(start_router: StartRouter, spool: Path, tmp_path: Path) -> None:
    """Names, types and labels, with all metrics enabled; docs/metrics.md is generated from the table."""
    port = free_port()
    pair = Authority(tmp_path).issue("server", {"CN": "localhost"}, ("localhost",))
    text = section("listener", name="http", host="127.0.0.1", port=port, http=True)
    text += section("sslProfile", name="p", certFile=pair.cert, privateKeyFile=pair.key)
    text += section("autoLink", name="jobs", address="jobs", direction="in", connection="nobody")
    router = start_router("A", telemetry(spool) + text)
    with Client(router.url) as client:
        receiver = client.receiver("orders", credit=10)
        sent = client.sender("orders").send_all([str(number) for number in range(10)])
        receiver.take(10)
        assert [one.outcome() for one in sent] == ["accepted"] * 10
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
    families = list(text_string_to_metric_families(text))
    told = {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE ")}
    assert told == {metric.name: metric.type for metric in METRICS.values()}
    labels = {sample.name: set(sample.labels) for family in families for sample in family.samples}
    for metric in METRICS.values():
        for series in metric.series:
            assert labels[series] == set(metric.labels) - ({"le"} if not series.endswith("_bucket") else set())
    samples = {(s.name, *sorted(s.labels.values())): s.value for family in families for s in family.samples}
    assert samples["waymesh_address_deliveries_total", "0", "ingress", "orders"] == 10
    assert samples["waymesh_address_consumers", "0", "orders"] == 1
    assert samples["waymesh_delivery_settle_seconds_count",] == 10
    assert samples["waymesh_telemetry_records_total", "delivery"] == 20
    assert samples["waymesh_telemetry_dropped_total", "delivery", "room"] == 0
    assert samples["waymesh_autolinks", "inactive"] == 1
    assert samples["waymesh_autolink_up", "jobs"] == 0
    assert samples["waymesh_metrics_left_out",] == 0
    end = load_pem_x509_certificate(pair.cert.read_bytes()).not_valid_after_utc.timestamp()
    assert samples["waymesh_tls_certificate_not_after_seconds", "p"] == end
