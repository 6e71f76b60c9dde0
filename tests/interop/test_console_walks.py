"""What an operator finds and does by the console alone: from the first page, by clicks and keys of a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message

from tests.interop.test_console import DEADLINE_S, serve
from tests.kit.browser import Page, opened
from tests.kit.clients import Client
from tests.kit.fixtures import StartMesh
from tests.kit.mesh import Mesh, wait_address
from tests.kit.ports import free_port
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

OPENED = "tr.detail:not(.below)"
"""What is shown of the row that was chosen."""
FIND = """(text, within) => [...document.querySelectorAll(`${within} :is(a, button, summary)`)]
    .filter(e => e.innerText.replace(/ [↑↓]$/, '').startsWith(text) && e.getClientRects().length)[0]"""
MOST_CLICKS = 6


class Reader:
    """Somebody who reads the page and presses what it shows. `clicks`: how often, since the walk began."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.clicks = 0
        self._address = address

    def begin(self) -> None:
        """The first page, as the address that everybody knows shows it."""
        self.clicks = 0
        self.page.visit("about:blank")
        self.page.visit(self._address)
        self.sees("What is wrong now")

    def sees(self, *texts: str, within: str = "main") -> None:
        """Until all of the texts are there."""
        shown = f"document.querySelector({json.dumps(within)})?.innerText ?? ''"
        wait_until(
            lambda: all(text in self.page.run(shown) for text in texts), DEADLINE_S,
            lambda: f"{texts} in {within}: {self.page.run(shown)}",
        )  # fmt: skip

    def press(self, text: str, within: str = "body") -> None:
        """Press the first link or button whose text begins so, with the mouse."""
        find = f"({FIND})({json.dumps(text)}, {json.dumps(within)})"
        wait_until(lambda: self.page.run(f"Boolean({find})"), DEADLINE_S, f"{text} in {within}")
        self.page.run(f"{find}.scrollIntoView({{block: 'center'}})")
        middle = "(b => [b.x + Math.min(b.width / 2, 20), b.y + b.height / 2])"
        x, y = self.page.run(f"{middle}({find}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.clicks += 1

    def opens(self, title: str) -> None:
        """Choose a page, and wait for it: what is typed before belongs to the page before."""
        self.press(title, "nav")
        current = "document.querySelector('nav [aria-current]')?.innerText"
        wait_until(lambda: self.page.run(current) == title, DEADLINE_S, lambda: f"{title}: {self.page.run(current)}")

    def types(self, field: str, text: str) -> None:
        """Press a field, and type."""
        wait_until(lambda: self.page.run(f"Boolean(document.querySelector({field!r}))"), DEADLINE_S, field)
        self.page.run(f"document.querySelector({field!r}).focus()")
        self.page.call("Input.insertText", text=text)
        self.clicks += 1

    def first_row(self, table: str) -> str:
        """The text of its first row."""
        return str(self.page.run(f"document.querySelector('[aria-label=\"{table}\"] tbody tr')?.innerText ?? ''"))


@pytest.fixture
def mesh(start_mesh: StartMesh) -> Mesh:
    return start_mesh(3)


@pytest.fixture
def reader(mesh: Mesh, tmp_path: Path) -> Iterator[Reader]:
    (tmp_path / "browser").mkdir()
    with opened(tmp_path / "browser") as page:
        page.look(1400, "light")
        yield Reader(page, serve(mesh))
        assert page.errors == []


def configured(mesh: Mesh) -> None:
    """Router B: an autolink whose broker is away. Router C: nobody may send to `secret`."""
    with ManagementClient(mesh["B"].url) as client:
        gone = {"host": "127.0.0.1", "port": str(free_port()), "role": "route-container"}
        client.create("connector", gone, name="warehouse")
        link = {"address": "stock", "direction": "in", "connection": "warehouse"}
        client.create("router.config.autoLink", link, name="stock-in")
    with ManagementClient(mesh["C"].url) as client:
        rest = {"users": "*", "remoteHosts": "*", "allowDynamicSource": True, "management": "write"}
        groups = {"$default": {**rest, "sources": "*", "targets": "orders, $management, _topo/*"}}
        client.create("vhost", {"hostname": "$default", "groups": groups, "allowUnknownUser": True})
        client.update({"enableVhostPolicy": True, "defaultVhost": "$default"}, "policy")


def slow_and_quick(mesh: Mesh, slow: Client, quick: Client, producer: Client) -> None:
    """Messages from A to C, through B, of which one of two consumers settles none."""
    taking, holding = quick.receiver("orders", credit=50), slow.receiver("orders", credit=3)
    wait_address(mesh["A"], "orders", remote=1)
    sending = producer.sender("orders")
    for _ in range(40):
        sending.send(Message(body="x"), wait=False)
    held = holding.take(3, accept=False)
    taking.take(37)
    assert len(held) == 3


def test_each_question_is_answered_by_a_few_clicks(mesh: Mesh, reader: Reader) -> None:
    configured(mesh)
    with (
        Client(mesh["C"].url, container_id="slow-one") as slow,
        Client(mesh["C"].url, container_id="quick-one") as quick,
        Client(mesh["A"].url, container_id="shop") as shop,
        Client(mesh["C"].url, container_id="thief") as thief,
    ):
        slow_and_quick(mesh, slow, quick, shop)
        denied = thief.sender("secret", wait=False)
        denied.wait_detached()

        # Why is this autolink down?
        reader.begin()
        reader.sees("autolink stock-in (stock) is inactive", "connector warehouse to 127.0.0.1")
        reader.press("Check the broker", ".faults")
        reader.sees("stock-in", "warehouse", "no connection of container or connector warehouse")
        assert reader.clicks <= MOST_CLICKS

        # Who was denied?
        reader.begin()
        reader.opens("Policy")
        reader.press("Who was denied what", "main")
        reader.sees("DENY sender", "user='anonymous'", "address='secret'")
        assert reader.clicks <= MOST_CLICKS

        # Close that client.
        reader.begin()
        reader.opens("Connections")
        reader.types("input[type=search]", "thief")
        wait_until(lambda: "thief" in reader.first_row("connections"), DEADLINE_S, "its row")
        reader.press("", "[aria-label=connections] tbody")
        reader.press("Close…")
        reader.sees("of thief", within=OPENED)
        reader.press("Close", OPENED)
        assert thief.wait_ended()
        assert reader.clicks <= MOST_CLICKS

        # Add an address, on all routers.
        prefixes = ("router.config.address", ["prefix"])
        reader.begin()
        reader.opens("Addresses")
        reader.press("Configure an address", "main")
        reader.types("form [name=prefix]", "news")
        reader.press("Create on all…")
        reader.sees("Create this router.config.address on 3 routers (prefix)?", within="form")
        reader.press("Create on all", "form")
        for router in mesh.routers:
            with ManagementClient(router.url) as client:
                wait_until(lambda: client.query(*prefixes) == [{"prefix": "news"}], DEADLINE_S, router.name)
        reader.sees("Done.", within="form")
        assert reader.clicks <= MOST_CLICKS

        # Which router carries most? All that was sent went through B.
        reader.begin()
        reader.press("Transit/s", "[aria-label=routers]")
        sending, taking = shop.sender("orders"), quick.receiver("orders", credit=0)

        def busy() -> bool:
            taking.flow(10)
            for _ in range(10):
                sending.send(Message(body="x"), wait=False)
            taking.take(10)
            return reader.first_row("routers").startswith("B")

        wait_until(busy, DEADLINE_S, lambda: reader.first_row("routers"))

        # Which consumer is slow? It has kept its messages for a while now.
        reader.begin()
        reader.sees("3 deliveries have been unsettled for a long time")
        reader.press("Find the consumers that do not settle", ".faults")
        slowest = "orders\tconsumer\t3 stuck: the consumer does not settle"
        wait_until(lambda: reader.first_row("links").startswith(slowest), DEADLINE_S, lambda: reader.first_row("links"))
        reader.press("", "[aria-label=links] tbody tr td:nth-child(13)")
        reader.sees("slow-one", within=OPENED)
        assert reader.clicks <= MOST_CLICKS
