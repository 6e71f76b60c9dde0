"""Time that the console's page Topology takes in a browser: `python -m tests.bench.console_page` after `make console`.

The mesh is made by router_image/waymesh_router/console/tests/large_mesh.tsx: each reading changes the figures of all
routers. Times are those of Chromium's performance metrics, in milliseconds of script.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

from tests.kit.browser import Page, opened
from tests.kit.waiting import wait_until
from tools import console

DEADLINE_S = 180.0
PERIOD_S = 2.0
FRAMES = 120


def build(folder: Path) -> None:
    """The page, as a file of its own."""
    source = console.SOURCES / "tests" / "large_mesh.tsx"
    console.node(
        "node_modules/esbuild/bin/esbuild", str(source), "--bundle", "--minify", "--target=es2022", "--format=iife",
        "--jsx=automatic", "--jsx-import-source=preact", "--alias:rhea=rhea/dist/rhea-umd.js",
        f"--outfile={folder / 'bench.js'}", "--log-level=warning",
    )  # fmt: skip
    page = '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="bench.css"><body><script src="bench.js">'
    (folder / "bench.html").write_text(f"{page}</script></body>", encoding="utf-8")


def metrics(page: Page) -> dict[str, float]:
    """Chromium's counters; durations are in seconds since the page began."""
    return {one["name"]: one["value"] for one in page.call("Performance.getMetrics")["metrics"]}


def spent(page: Page, before: dict[str, float]) -> dict[str, float]:
    """Milliseconds since then."""
    after = metrics(page)
    return {name: (after[name] - before[name]) * 1000 for name in ("ScriptDuration", "LayoutDuration", "TaskDuration")}


def panned(page: Page) -> dict[str, float]:
    """Milliseconds a frame while the picture is moved, and the elements that were compared in it (median)."""
    x, y = page.run("(b => [b.x + b.width / 2, b.y + 40])(document.querySelector('svg').getBoundingClientRect())")

    def mouse(kind: str, move: int) -> None:
        page.call("Input.dispatchMouseEvent", type=kind, x=x + move, y=y + move % 30, button="left", buttons=1)

    mouse("mousePressed", 0)
    before, compared = metrics(page), [page.run("compared()")]
    for number in range(FRAMES):
        mouse("mouseMoved", number % 200)  # answered when the page has handled it
        compared.append(page.run("compared()"))
    found = {name: value / FRAMES for name, value in spent(page, before).items()}
    mouse("mouseReleased", 0)
    return found | {"compared": median(later - earlier for earlier, later in pairwise(compared))}


def show(page: Page, folder: Path, routers: int, edges: int, clients: int) -> None:
    """Show a mesh, until all of it is there."""
    page.visit(f"{(folder / 'bench.html').as_uri()}?routers={routers}&edges={edges}&clients={clients}")
    lines = "document.querySelectorAll('svg line').length"
    # A line for each edge, and one to the clients of each router.
    wait_until(lambda: page.run(lines) == edges + routers, DEADLINE_S, lambda: f"{page.run(lines)} lines")


def measure(page: Page, routers: int) -> dict[str, dict[str, float]]:
    """Figures of the mesh that is shown."""
    first = metrics(page)["ScriptDuration"] * 1000
    asked, before, began = page.run("answers()"), metrics(page), time.monotonic()
    wait_until(lambda: page.run("answers()") >= asked + 3 * routers * 5, DEADLINE_S, "five readings")
    readings = (page.run("answers()") - asked) / (3 * routers)
    update = {name: value / readings for name, value in spent(page, before).items()}
    update["seconds"] = (time.monotonic() - began) / readings
    page.run("Object.defineProperty(document, 'hidden', { value: true })")
    time.sleep(PERIOD_S)  # until the last reading has ended
    return {"first": {"ScriptDuration": first}, "update": update, "pan": panned(page)}


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--routers", type=int, default=200)
    parser.add_argument("--edges", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=10_000)
    options = parser.parse_args()
    # Processes of the browser may still write when it is told to end.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        build(folder)
        (folder / "browser").mkdir()
        with opened(folder / "browser") as page:
            page.call("Performance.enable")
            page.look(1400, "light")
            show(page, folder, options.routers, options.edges, options.clients)
            found = measure(page, options.routers)
            assert page.errors == [], page.errors
    for what, times in found.items():
        print(what, json.dumps({key: round(value, 2) for key, value in times.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
