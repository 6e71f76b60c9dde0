"""The job with input and output in S3, as a command, with a server that fails now and then."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.analytics.export import HOUR_US, RouterExport
from tests.s3 import S3Server, running
from waymesh_analytics.cli.main import main

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent, pytest.mark.timeout(900)]
BUCKET = f"s3a://{S3Server.bucket}"
FEW_TRIES = (
    "--conf=spark.hadoop.fs.s3a.attempts.maximum=1", "--conf=spark.hadoop.fs.s3a.retry.limit=1",
    "--conf=spark.hadoop.fs.s3a.retry.throttle.limit=1", "--conf=spark.task.maxFailures=1",
)  # fmt: skip
Command = Callable[..., tuple[int, str]]
MADE = re.compile(rb'"made": "[^"]+"|made [-0-9]+ [:0-9]+ UTC')
"""When a report was made, in its summary and on its page."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running(tmp_path_factory.mktemp("s3")) as made:
        yield made


@pytest.fixture
def export(server: S3Server, tmp_path: Path) -> Path:
    """Deliveries of two hours, here and in the bucket as `in`."""
    server.empty()
    router = RouterExport(tmp_path / "export", "A")
    for number in range(20):
        values = {"sid": number, "half": "out", "address": "orders", "phase": 0, "ingress": "A", "egress": "A"}
        router.put("delivery", number * HOUR_US // 10, outcome="accepted", weight=1.0, hops=0, path="A", **values)
    for path in router.write():
        server.client.fput_object(server.bucket, f"in/{path.relative_to(router.root)}", str(path))
    return router.root


@pytest.fixture
def analyze(
    spark: Any, server: S3Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """`waymesh analyze` on the Spark that is there; returns its exit code and what it said."""
    from waymesh_analytics.spark import session

    def opened(master: str, settings: dict[str, str], java_options: str) -> Any:
        jvm, conf = spark.sparkContext._jvm, spark.sparkContext._jsc.hadoopConfiguration()
        for name, text in settings.items():
            conf.set(name.removeprefix("spark.hadoop."), text)
        # Hadoop keeps the file system of a bucket, with the settings that it was made with.
        jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI(BUCKET), conf).close()
        return spark

    def run(source: str, out: str, *more: str) -> tuple[int, str]:
        code = main([source, "--out", out, "--endpoint", server.url, *more])
        return code, capsys.readouterr().err

    monkeypatch.setattr(session, "open_session", opened)
    monkeypatch.setattr(session, "require_s3a_jars", lambda: None)  # not where `make analytics-bucket` puts them
    monkeypatch.setattr(type(spark), "stop", lambda session: None)
    return run


def files(folder: Path) -> dict[str, bytes]:
    """A report without what Spark names by chance."""
    found = [*folder.glob("*.json"), *folder.glob("*.html"), *folder.glob("tables/*.json")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def without_times(contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Files of a report without the time when it was made."""
    return {name: MADE.sub(b"", content) for name, content in contents.items()}


def test_the_report_in_a_bucket_is_that_of_a_folder(
    spark: Any, server: S3Server, export: Path, analyze: Command, tmp_path: Path
) -> None:
    from waymesh_analytics.query.run import Query, answer

    code, _ = analyze(str(export), str(tmp_path / "out"))
    assert code == 0
    expected = files(tmp_path / "out")
    assert len(expected) > 20
    server.refuse(503, 3, method="GET")
    code, said = analyze(f"{BUCKET}/in", f"{BUCKET}/out")
    assert (code, server.unspent) == (0, 0), said
    assert "delivery: 2026-01-30T00 to 2026-01-30T01, 2 files" in said
    found = server.objects()
    assert without_times({name: found[f"out/{name}"] for name in expected}) == without_times(expected)
    written = len(server.puts)
    code, said = analyze(f"{BUCKET}/in", f"{BUCKET}/out")
    assert code == 0
    assert "delivery:" not in said, "nothing is new"
    assert not any("/store/curated/" in key for key in server.puts[written:])
    written = len(server.puts)
    sql = "SELECT address, count(*) AS records FROM delivery GROUP BY address"
    assert answer(spark, Query(sql, f"{BUCKET}/out")).to_pylist() == [{"address": "orders", "records": 20}]
    assert server.puts[written:] == [], "a query writes nothing"


@pytest.mark.parametrize(
    ("method", "status", "said"),
    [("HEAD", 403, "AccessDenied"), ("GET", 403, "ACCESS_DENIED"), ("PUT", 503, "Status Code: 503")],
)
def test_a_bucket_that_refuses(
    server: S3Server, export: Path, analyze: Command, method: str, status: int, said: str
) -> None:
    """The run ends with what the server said, and does not take what it could not read for empty."""
    server.refuse(status, method=method)
    code, text = analyze(f"{BUCKET}/in", f"{BUCKET}/out", *FEW_TRIES)
    server.refuse(0)
    assert code == 1
    *_, last = text.splitlines()
    assert last.startswith("waymesh analyze: ")
    assert said in last
    assert not [key for key, data in server.objects().items() if "/manifest/" in key and b"curated/" in data]


def test_what_is_not_there_is_named(export: Path, analyze: Command) -> None:
    none = f"{BUCKET}/none"
    places = [(none, none, "no such folder: "), ("s3a://nowhere", none, "nowhere")]
    places.append((f"{BUCKET}/in", "s3a://away/out", "away"))
    for source, out, name in places:
        code, said = analyze(source, out, *FEW_TRIES)
        assert code == 1
        assert name in said.splitlines()[-1]
