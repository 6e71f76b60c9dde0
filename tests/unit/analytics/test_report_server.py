"""The report server serves the report, but neither the store nor other files of the claim."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from waymesh_analytics.report.server import server

pytestmark = pytest.mark.engine_independent


@pytest.fixture
def get(tmp_path: Path) -> Iterator[Callable[[str], tuple[int, bytes]]]:
    """Asks the server of the folder `report` for a path; returns status and body."""
    root = tmp_path / "report"
    shown = ["report.html", "summary.json", "tables/traffic.json", "tables/traffic.parquet/part-0-a.snappy.parquet"]
    hidden = ["store/manifest/1.json", "store/curated/x.parquet", "tables/.traffic.json.tmp", "../secret", "notes.txt"]
    for name in (*shown, *hidden):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "tables/link.json").symlink_to(tmp_path / "secret")
    serving = server(root, 0)
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()

    def ask(path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", serving.server_port, timeout=30)
        connection.request("GET", path)
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    yield ask
    serving.shutdown()
    thread.join()
    serving.server_close()


@pytest.mark.parametrize(
    "name", ["report.html", "summary.json", "tables/traffic.json", "tables/traffic.parquet/part-0-a.snappy.parquet"]
)
def test_the_files_of_the_report_are_served(get: Callable[[str], tuple[int, bytes]], name: str) -> None:
    assert get(f"/{name}") == (200, name.encode())
    assert get("/") == (200, b"report.html")


@pytest.mark.parametrize(
    "path",
    [
        "/store/manifest/1.json", "/store/curated/x.parquet", "/store/", "/tables/", "/tables", "/notes.txt",
        "/../secret", "/%2e%2e/secret", "/tables/../store/manifest/1.json", "/tables/..%2f..%2fsecret", "//etc/passwd",
        "/tables/link.json", "/tables/.traffic.json.tmp", "/tables/none.json",
    ],
)  # fmt: skip
def test_nothing_else_is(get: Callable[[str], tuple[int, bytes]], path: str) -> None:
    status, body = get(path)
    assert status == 404
    assert b"secret" not in body
