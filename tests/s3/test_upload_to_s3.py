"""`waymesh-upload` with an S3 server: everything in the spool arrives once, whatever fails on the way."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.waiting import wait_until
from tests.s3 import ENVIRONMENT, S3Server, running
from waymesh_router.runtime.spool.files import SpoolSettings
from waymesh_router.runtime.spool.spool import RecordCounter, Spool
from waymesh_schema.telemetry import KINDS, FileName, parse_path
from waymesh_upload.command import main
from waymesh_upload.store import S3, Credentials, Target, UsageError
from waymesh_upload.uploader import Uploader

CREDENTIALS = Credentials.of(ENVIRONMENT)
NOON_US = 1_769_860_800_000_000

pytestmark = pytest.mark.engine_independent


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running(tmp_path_factory.mktemp("s3")) as made:
        yield made


@pytest.fixture
def s3(server: S3Server) -> S3Server:
    server.empty()
    return server


class Scene:
    """A spool, and uploaders of it."""

    def __init__(self, folder: Path, server: S3Server) -> None:
        self.spool = folder / "spool"
        self.server = server
        self.log_path = folder / "upload.log"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.written: dict[str, bytes] = {}

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def write(self, count: int, boot: int = 1) -> None:
        """So many finished files."""
        for number in range(count):
            name = FileName("link", "2026-01-31", 12, "A", boot, number * 10 + 1, 10)
            path = self.spool / name.path
            path.parent.mkdir(parents=True, exist_ok=True)
            self.written[name.path] = f"{boot}/{number}".encode()
            # As routers do: an uploader that runs must not find a file that is not finished.
            path.with_name(f".tmp-{path.name}").write_bytes(self.written[name.path])
            path.with_name(f".tmp-{path.name}").rename(path)

    def left(self) -> list[str]:
        return [path.name for path in self.spool.rglob("*.gz")]

    def start(self, *more: str, target: str = "", endpoint: str = "") -> subprocess.Popen[bytes]:
        where = ["--target", target or f"s3://{self.server.bucket}", "--endpoint", endpoint or self.server.url]
        command = [sys.executable, "-m", "waymesh_upload.command", "--spool", str(self.spool), *where, *more]
        with self.log_path.open("ab") as log:
            self.processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, env=ENVIRONMENT))
        return self.processes[-1]

    def stop(self) -> int:
        process = self.processes.pop()
        process.send_signal(signal.SIGTERM)
        return process.wait(60)


@pytest.fixture
def scene(tmp_path: Path, s3: S3Server) -> Iterator[Scene]:
    made = Scene(tmp_path, s3)
    yield made
    for process in made.processes:
        process.kill()
        process.wait()


def test_files_become_objects_of_the_same_name(scene: Scene) -> None:
    scene.write(3)
    unfinished = scene.spool / "v1/kind=link/dt=2026-01-31/hr=12/.tmp-A-1-000000000031.ndjson.gz"
    unfinished.write_bytes(b"not yet")
    assert scene.start("--once", target=f"s3://{scene.server.bucket}/team/mesh/").wait(60) == 0
    assert scene.server.objects() == {f"team/mesh/{path}": data for path, data in scene.written.items()}
    assert [path.name for path in scene.spool.rglob("*.gz")] == [unfinished.name]
    assert "3 files, 9 bytes uploaded" in scene.log


def test_a_server_that_refuses_for_a_while_costs_nothing(scene: Scene) -> None:
    scene.write(4)
    scene.server.refuse(403, 6)  # three a pass: the oldest, and others to see whether it is the store
    uploader = scene.start("--interval-seconds", "0.1")
    wait_until(lambda: len(scene.server.puts) == 4, 60, "all uploaded")
    uploader.send_signal(signal.SIGSTOP)  # it must find all files at once: what is refused alone is tried again later
    scene.server.refuse(503, 3)
    scene.write(4, boot=2)
    uploader.send_signal(signal.SIGCONT)
    wait_until(lambda: not scene.left(), 60, "all uploaded")
    assert scene.stop() == 0
    assert scene.server.objects() == scene.written
    assert len(scene.server.puts) == 8, "nothing twice"
    assert "upload refused (2 passes in a row), 4 files waiting: v1/kind=link/" in scene.log
    assert "AccessDenied: told to refuse" in scene.log
    assert "SlowDown: told to refuse" in scene.log
    assert scene.log.count("the store accepts files again") == 2


def test_one_that_was_killed_leaves_nothing_out_and_nothing_twice(scene: Scene) -> None:
    scene.write(5)
    scene.server.hold(after=3)
    process = scene.start()
    wait_until(lambda: len(scene.server.puts) == 3, 60, "three objects")
    process.kill()
    process.wait()
    assert len(scene.left()) == 3, "the third is there and was not known to be"
    assert scene.start("--once").wait(60) == 0
    assert scene.server.objects() == scene.written
    assert scene.left() == []


def test_the_end_takes_along_what_came_last(scene: Scene) -> None:
    scene.start("--interval-seconds", "3600")
    wait_until(lambda: "uploading " in scene.log, 60, "its start")
    scene.write(2)
    assert scene.stop() == 0
    assert scene.server.objects() == scene.written
    assert "stopped; 2 files uploaded in total, 0 set aside" in scene.log


def test_a_spool_that_fills_while_the_server_refuses_drops_samples_and_counts_them(scene: Scene) -> None:
    """What comes up in the end and what the router counts as dropped are all its records."""
    counter = RecordCounter()
    spool = Spool(SpoolSettings(scene.spool, "mesh", "A", 7, max_bytes=10_000), counter, lambda level, text: None)
    uploader = Uploader(scene.spool, S3(Target(S3Server.bucket), scene.server.url, "us-east-1", CREDENTIALS), time.time)
    scene.server.refuse(503)
    blank = [None] * (len(KINDS["delivery"].own) - 1)
    for number in range(40):
        for kind, values in (("event", (f"{number}", "info", None, {})), ("delivery", (number, *blank))):
            for _ in range(5):
                spool.put(kind, NOON_US + number, number, tuple(values))
        spool.rotate()
    spool.close()
    spool.wait(60)
    assert "SlowDown" in uploader.run().refusal
    scene.server.refuse(0)
    assert uploader.run().refusal == ""
    found: dict[str, list[int]] = {"event": [], "delivery": []}
    for path, data in scene.server.objects().items():
        name = parse_path(path)
        assert name is not None
        found[name.kind] += [json.loads(line)["seq"] for line in gzip.decompress(data).splitlines()]
    assert sorted(found["event"]) == list(range(1, 201))
    assert len(set(found["delivery"])) == len(found["delivery"]) == 200 - counter.dropped["delivery", "room"]
    assert 0 < len(found["delivery"]) < 200
    assert set(counter.dropped) == {("delivery", "room")}


@pytest.mark.parametrize(
    ("target", "endpoint", "code", "said"),
    [
        ("s3://no-such-bucket", "", 1, "NoSuchBucket"),
        ("s3://telemetry", "http://127.0.0.1:1", 1, "Connection refused"),
        ("file:///tmp", "", 2, "'file:///tmp' is not s3://bucket"),
        ("s3://telemetry", "http://127.0.0.1/path", 2, "is not the URL of a server"),
        ("s3://telemetry", "localhost", 2, "is not the URL of a server"),
    ],
)
def test_what_cannot_be_is_said(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str],
    target: str, endpoint: str, code: int, said: str,
) -> None:
    monkeypatch.setattr("os.environ", ENVIRONMENT)
    scene.write(1)
    where = ["--target", target, "--endpoint", endpoint or scene.server.url]
    assert main(["--spool", str(scene.spool), "--once", *where]) == code
    assert said in caplog.text + capsys.readouterr().err
    assert len(scene.left()) == 1


def test_credentials_come_from_the_environment() -> None:
    with pytest.raises(UsageError, match="no AWS_ACCESS_KEY_ID"):
        Credentials.of({"AWS_SECRET_ACCESS_KEY": "b"})
    with pytest.raises(UsageError, match="no AWS_SECRET_ACCESS_KEY"):
        Credentials.of({"AWS_ACCESS_KEY_ID": "a"})
    given = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    assert Credentials.of(given) == Credentials("a", "b")
    assert Credentials.of({**given, "AWS_SESSION_TOKEN": "c"}) == Credentials("a", "b", "c")
