"""A router with a failing telemetry disk: messages are forwarded, and lost records are counted."""

from __future__ import annotations

import contextlib
import gzip
import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import DEADLINE_S, wait_until
from waymesh_client.errors import ClientError
from waymesh_client.management import ManagementClient
from waymesh_schema.telemetry import KINDS, FileName, parse_path

StartRouter = Callable[..., RouterProcess]
ROUND = 200
"""Deliveries sent in one go; each makes two records."""


def telemetry(spool: Path, **more: object) -> str:
    """Every delivery is recorded, and samples every second."""
    settings = {"sampleOneIn": 1, "samplesPerSecond": 100_000, "intervalSeconds": 1, "rotateSeconds": 1, **more}
    return section("telemetry", path=spool, mesh="m", **settings)


def send(router: RouterProcess, count: int = ROUND) -> None:
    """Send messages; all are accepted."""
    with Client(router.url) as client:
        receiver = client.receiver("orders", credit=count)
        sent = client.sender("orders").send_all(["x" * 50] * count)
        for message in receiver.take(count):
            message.accept()
        assert {one.outcome() for one in sent} == {"accepted"}


def files_after_a_round(router: RouterProcess, spool: Path) -> list[FileName]:
    send(router)
    return finished(spool)


def finished(spool: Path) -> list[FileName]:
    found = [parse_path(path.relative_to(spool).as_posix()) for path in spool.rglob("*.gz")]
    return sorted((name for name in found if name is not None), key=lambda name: (name.kind, name.first))


def lines(spool: Path, kind: str) -> list[dict[str, Any]]:
    """All records of finished files."""
    found: list[dict[str, Any]] = []
    for name in finished(spool):
        if name.kind == kind:
            with gzip.open(spool / name.path, "rt") as file:
                part = [json.loads(line) for line in file]
            assert [line["seq"] for line in part] == list(range(name.first, name.first + name.count))
            found += part
    return found


def missing(spool: Path) -> Counter[str]:
    """The missing records when the router has ended: its last record has the number of records of each kind."""
    found = {kind: {line["seq"] for line in lines(spool, kind)} for kind in KINDS}
    made = lines(spool, "router")[-1]["records"]
    return Counter({kind: max(made[kind], *seqs, 0) - len(seqs) for kind, seqs in found.items()})


class SmallDisk:
    """A small file system for a folder, in a mount namespace that ends with the process that holds it."""

    def __init__(self, folder: Path, kilobytes: int) -> None:
        folder.mkdir()
        script = f"mount -t tmpfs -o size={kilobytes}k none '{folder}' && echo there && exec cat"
        self._holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"there\n"
        self.seen = Path(f"/proc/{self._holder.pid}/root{folder}")
        """The folder from outside."""

    @property
    def inside(self) -> list[str]:
        """The prefix of a command that runs where the folder is this disk."""
        return ["nsenter", "-m", "-t", str(self._holder.pid)]

    @contextlib.contextmanager
    def filled(self) -> Iterator[None]:
        """Nothing else fits on the disk. The router may write at the same time: the end of the room is an error."""
        filler = self.seen / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass
        yield
        filler.unlink()

    def end(self) -> None:
        self._holder.communicate(timeout=DEADLINE_S)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    made = SmallDisk(tmp_path / "spool", 4096)
    yield made
    made.end()


def state(router: RouterProcess) -> dict[str, Any]:
    """What the router reports about its telemetry, over a new connection: an idle one would be closed."""
    with ManagementClient(router.url) as management:
        return management.read("telemetry")


def dropped(router: RouterProcess) -> int:
    return int(state(router)["droppedRecords"])


def dropped_after_a_round(router: RouterProcess) -> int:
    send(router)
    return dropped(router)


def error_after_a_round(router: RouterProcess) -> str:
    send(router)
    return str(state(router)["lastError"])


def test_a_disk_that_is_full(tmp_path: Path, disk: SmallDisk) -> None:
    port = free_port()
    text = section("router", id="A") + section("listener", host="127.0.0.1", port=port)
    router = RouterProcess(tmp_path, "A", text + telemetry(tmp_path / "spool"), [port], disk.inside).start()
    refused = "telemetry cannot be written: [Errno 28]"
    try:
        send(router)
        wait_until(lambda: finished(disk.seen), what="files")
        with disk.filled():
            wait_until(lambda: dropped_after_a_round(router) > 0 and refused in router.log, what="what does not fit")
        wait_until(lambda: error_after_a_round(router) == "", what="room again")
        before = len(finished(disk.seen))
        wait_until(lambda: len(finished(disk.seen)) > before + 3, what="more files")
        lost = dropped(router)
        router.stop()
        assert missing(disk.seen).total() == lost
        assert missing(disk.seen)["delivery"] > 0
    finally:
        router.kill()


def test_a_folder_that_cannot_be_used_at_the_start(start_router: StartRouter, tmp_path: Path) -> None:
    """The router starts without it, reports that, and uses it as soon as possible."""
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    spool = in_the_way / "spool"
    router = start_router("A", telemetry(spool))
    send(router)
    wait_until(lambda: state(router)["lastError"], what="an error")
    wait_until(lambda: "telemetry cannot be written" in router.log, what="a line in the log")
    wait_until(lambda: dropped(router) >= ROUND, what="the loss of the deliveries")
    in_the_way.unlink()
    wait_until(lambda: not state(router)["lastError"], what="the end of the error")
    lost = dropped(router)
    send(router)
    router.stop()
    assert router.log.count("telemetry cannot be written") == 1
    assert len(lines(spool, "delivery")) >= 2 * ROUND
    assert missing(spool).total() == lost
    assert missing(spool)["delivery"] > 0


def test_a_folder_that_cannot_be_used_is_refused_later(start_router: StartRouter, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    router = start_router("A", telemetry(tmp_path / "good"))
    with ManagementClient(router.url) as management:
        with pytest.raises(ClientError, match="telemetry: path: "):
            management.update({"path": str(tmp_path / "file" / "spool")}, "telemetry")
        assert management.read("telemetry")["path"] == str(tmp_path / "good")


def test_a_folder_that_is_removed_under_way(start_router: StartRouter, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    router = start_router("A", telemetry(spool))
    send(router)
    wait_until(lambda: finished(spool), what="files")
    gone = spool.rename(tmp_path / "gone")  # atomically, because the router may be writing another file
    shutil.rmtree(gone)
    wait_until(lambda: files_after_a_round(router, spool), what="files again")
    send(router)
    router.stop()
    found = [line["seq"] for line in lines(spool, "delivery")]
    assert len(found) >= 2 * ROUND
    assert found == list(range(found[0], found[-1] + 1)), "what was there is gone, and nothing else"
