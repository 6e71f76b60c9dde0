"""`kubectl waymesh console` before real routers. What stands in for the API server only forwards to a router's port;
the command, the browser and the routers are real."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.interop.test_console import AXE, DEADLINE_S, fill, press, show, wait_cell
from tests.kit.browser import Page, opened
from tests.kit.mesh import Mesh
from tests.kit.ports import free_port
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

COMMAND = """
import sys
from waymesh_operator.cli import cluster, forward
from waymesh_operator.cli.main import run_command

class Forwarder:
    def __init__(self, context): pass
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def port(self, namespace, pod, port): return int(sys.argv[1])

forward.Forwarder = Forwarder
cluster.choose_pod = lambda where, wanted: ("ns", "mesh-0")
sys.exit(run_command(["console", "--context", "here", *sys.argv[2:]]))
"""
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "x" * 22 + "==",
}


@contextmanager
def command(port: int, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command that leads to this port of a router, and the address that it printed."""
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(port), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip().rpartition(" ")[2]
    finally:
        process.kill()
        process.communicate()


@contextmanager
def page_in(folder: Path) -> Iterator[Page]:
    folder.mkdir()
    with opened(folder) as page:
        page.look(1400, "light")
        yield page


def ask(place: str, method: str, path: str, body: str = "", **fields: str) -> tuple[int, str]:
    """Status and content of an answer. `fields`: header fields, with _ for -."""
    connection = http.client.HTTPConnection(place, timeout=DEADLINE_S)
    given = {name.replace("_", "-"): value for name, value in fields.items()}
    connection.request(method, path, body=body or None, headers=given)
    answer = connection.getresponse()
    text = "" if answer.status == 101 else answer.read().decode()
    connection.close()
    return answer.status, text


def test_the_page_works_for_the_browser_that_came_first(mesh2_line: Mesh, tmp_path: Path) -> None:
    mesh = mesh2_line
    with command(mesh["A"].port) as (process, address), page_in(tmp_path / "first") as page:
        page.visit(address)
        wait_cell(page, "routers", "B", Mode="interior")
        assert "code" not in page.run("location.href")
        page.visit("about:blank")
        show(page, address.partition("#")[0], "entities?type=router.config.address&router=B&create=yes")
        wait_until(lambda: page.run("document.querySelectorAll('form [name=prefix]').length"), DEADLINE_S, "the form")
        fill(page, "name", "orders")
        fill(page, "prefix", "orders")
        press(page, "Create…")
        press(page, "Create")
        with ManagementClient(mesh["B"].url) as client:
            wait_until(lambda: len(client.query("router.config.address", ["name"])) == 1, DEADLINE_S, "the address")
        assert page.errors == []
        with page_in(tmp_path / "second") as other:
            other.visit(address)
            text = "document.body.innerText"
            wait_until(lambda: "was used before" in other.run(text), DEADLINE_S, lambda: str(other.run(text)))
            assert "code" not in other.run("location.href")
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 0
        with pytest.raises(OSError, match="refused"):
            ask(urlsplit(address).netloc, "GET", "/console/")


def test_other_programs_and_pages_are_refused(mesh2_line: Mesh) -> None:
    with command(mesh2_line["A"].port) as (_, address):
        url = urlsplit(address)
        place, code, own = url.netloc, url.fragment.removeprefix("code="), f"http://{url.netloc}"
        assert ask(place, "GET", "/console/")[0] == 200
        assert ask(place, "GET", "/")[0] == 302
        assert ask(place, "GET", "/console/../../etc/passwd")[0] == 404
        # A name that leads here, and a page of another origin.
        assert ask(place, "GET", "/console/", Host="evil.example")[0] == 403
        assert ask(place, "GET", "/console/", Origin="http://evil.example")[0] == 403
        assert ask(place, "POST", "/code", code, Origin="http://evil.example")[0] == 403
        assert ask(place, "POST", "/code", code, Origin=own, Host=f"localhost:{url.port}")[0] == 403
        assert ask(place, "POST", "/code", code)[0] == 403
        # Another program of this machine, which can say that it is the page.
        offered = "Sec_WebSocket_Protocol"
        for given in ({}, {offered: "amqp"}, {offered: "amqp, waymesh."}, {offered: f"amqp, waymesh.{code}"}):
            assert ask(place, "GET", "/", **UPGRADE, Origin=own, **given)[0] == 403
        assert ask(place, "POST", "/code", "x" * len(code), Origin=own)[0] == 403
        assert ask(place, "POST", "/code", "x" * 4096, Origin=own)[0] == 413
        status, token = ask(place, "POST", "/code", code, Origin=own)
        assert status == 200
        assert ask(place, "POST", "/code", code, Origin=own)[0] == 403
        with_token = {**UPGRADE, offered: f"amqp, waymesh.{token}"}
        assert ask(place, "GET", "/", **with_token)[0] == 403
        assert ask(place, "GET", "/", **with_token, Origin="http://evil.example")[0] == 403
        assert ask(place, "GET", "/", **with_token, Origin=own)[0] == 101


def test_a_router_that_is_away_is_said_to_be(mesh2_line: Mesh) -> None:
    port = free_port()
    with command(port) as (_, address):
        place = urlsplit(address).netloc
        own = {"Origin": f"http://{place}"}
        _, token = ask(place, "POST", "/code", urlsplit(address).fragment.removeprefix("code="), **own)
        fields = {**UPGRADE, **own, "Sec_WebSocket_Protocol": f"amqp, waymesh.{token}"}
        status, text = ask(place, "GET", "/", **fields)
        assert status == 502
        assert "Connect call failed" in text


FINDING = "Consumers do not settle: =<img src=x onerror=alert(1)>"


def report_in(folder: Path, page: str) -> Path:
    """What `waymesh analyze --out` leaves there, with this page."""
    folder.mkdir()
    findings = [{"kind": "ConsumersStuck", "severity": "bad", "text": FINDING, "action": "Look at the consumer."}]
    hours = {"first": "2026-01-31T04", "last": "2026-01-31T05"}
    summary = {"made": "2026-01-31T05:10:00Z", "headline": "mesh", "hours": hours, "findings": findings}
    (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    (folder / "report.html").write_text(f"<!doctype html><title>of the job</title>{page}", encoding="utf-8")
    return folder


def hostile(port: int) -> str:
    """A page that tries to leave its frame, with a link over all of it, and that has many elements."""
    there = f"http://127.0.0.1:{port}/"
    return f"""
        <meta http-equiv=refresh content="0;url={there}refresh">
        <script>document.title = 'ran'; fetch('{there}script'); parent.document.title = 'ran'; alert(1)</script>
        <script src="{there}script.js"></script><script src="/console/console.js"></script>
        <link rel=stylesheet href="{there}style.css"><link rel=prefetch href="{there}prefetch">
        <img src="{there}image" onerror="parent.location = '{there}'"><iframe src="{there}frame"></iframe>
        <iframe src="/console/"></iframe><object data="{there}object"></object>
        <video src="{there}video" autoplay></video>
        <form id=f action="{there}form" method=post target=_top><button autofocus>x</button></form>
        <style>@import "{there}import.css"; @font-face {{ font-family: x; src: url("{there}font") }}
        body {{ font-family: x }}</style>
        <a id=over href="{there}link" style="position: fixed; inset: 0; z-index: 9">{"<b>x</b>" * 20000}</a>
        <base href="{there}">"""


def press_frame(page: Page) -> None:
    """A click into the middle of the frame, which may not have its content yet."""
    box = "document.querySelector('iframe').getBoundingClientRect()"
    x, y = page.run(f"(b => [b.x + b.width / 2, b.y + b.height / 2])({box})")
    for kind in ("mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


def asked(listening: socket.socket) -> bytes:
    """What came in at all connections so far. A browser may connect ahead of a click; it must not ask for anything."""
    came = b""
    with contextlib.suppress(BlockingIOError):
        while True:
            connection, _ = listening.accept()
            connection.setblocking(False)
            with connection, contextlib.suppress(BlockingIOError):
                came += connection.recv(65536)
    return came


def test_a_hostile_report_is_shown_and_does_nothing(mesh2_line: Mesh, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.setblocking(False)
        folder = report_in(tmp_path / "report", hostile(other.getsockname()[1]))
        with (
            command(mesh2_line["A"].port, "--report", str(folder)) as (_, address),
            page_in(tmp_path / "browser") as page,
        ):
            page.visit(address)
            text = "document.body.innerText"
            wait_until(lambda: FINDING in page.run(text), DEADLINE_S, lambda: str(page.run(text)))
            assert "Look at the consumer." in page.run(text)
            assert page.errors == []
            page.run("location.hash = '#/report'")
            wait_until(lambda: page.run("Boolean(document.querySelector('iframe'))"), DEADLINE_S, "the frame")
            page.run(f"{AXE.read_text(encoding='utf-8')}; 0")
            kept = "window.found = found.violations.map(v => [v.impact, v.id])"
            run = f"axe.run({{iframes: false}}).then(found => {{ {kept} }})"
            page.call("Runtime.evaluate", expression=run, awaitPromise=True)
            assert [one for one in page.run("found") if one[0] in ("serious", "critical")] == []

            def blocked() -> bool:
                press_frame(page)
                return "frame-src" in str(page.errors)

            wait_until(blocked, DEADLINE_S, lambda: str(page.errors))
            assert page.run("location.hash") == "#/report"
            assert page.run("document.title") == "Report – Waymesh console"
            assert asked(other) == b""


def test_the_report_is_for_the_page_alone_and_has_a_largest_size(mesh2_line: Mesh, tmp_path: Path) -> None:
    folder = report_in(tmp_path / "report", "<p>")
    with command(mesh2_line["A"].port, "--report", str(folder)) as (_, address):
        url = urlsplit(address)
        place, own = url.netloc, f"http://{url.netloc}"
        assert ask(place, "POST", "/report", Origin=own)[0] == 403
        _, token = ask(place, "POST", "/code", url.fragment.removeprefix("code="), Origin=own)
        key = f"Bearer {token}"
        assert ask(place, "POST", "/report", Authorization=f"{key}x", Origin=own)[0] == 403
        assert ask(place, "POST", "/report", Authorization=key)[0] == 403
        assert ask(place, "POST", "/report", Authorization=key, Origin="http://evil.example")[0] == 403
        status, text = ask(place, "POST", "/report", Authorization=key, Origin=own)
        assert status == 200
        path = json.loads(text)["page"]
        assert ask(place, "GET", path)[0] == 200
        assert ask(place, "GET", path, Host="evil.example")[0] == 403
        assert ask(place, "GET", f"{path[:-1]}")[0] == 404
        assert ask(place, "GET", "/report/../summary.json")[0] == 404
        with (folder / "report.html").open("r+b") as file:
            file.truncate((32 << 20) + 1)
        assert ask(place, "GET", path) == (404, "report.html has more than 32 MiB: open the file itself\n")
        for wrong, told in (("[" * 100_000, "is no JSON"), ("[]", "is no object")):
            (folder / "summary.json").write_text(wrong, encoding="utf-8")
            assert told in ask(place, "POST", "/report", Authorization=key, Origin=own)[1]
        (folder / "summary.json").unlink()
        assert "No such file" in ask(place, "POST", "/report", Authorization=key, Origin=own)[1]


def test_errors_of_the_command(tmp_path: Path) -> None:
    with command(free_port()) as (_, address):
        used = str(urlsplit(address).port)
        with command(free_port(), "--port", used) as (process, _):
            assert process.wait(DEADLINE_S) == 1
    with command(free_port(), "--port", "70000") as (process, _):
        assert process.wait(DEADLINE_S) == 2
    missing = tmp_path / "kubeconfig"
    missing.write_text(json.dumps({"apiVersion": "v1", "kind": "Config"}), encoding="utf-8")
    found = subprocess.run(
        [sys.executable, "-m", "waymesh_operator", "console", "--context", "nowhere"],
        env={"PATH": "/usr/bin:/bin", "KUBECONFIG": str(missing), "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert found.returncode == 1
    assert found.stderr.startswith("waymesh: ")
    assert "Traceback" not in found.stderr
