"""Takes the console's picture for the README: `python -m tests.docs.console_picture docs/pictures/console.png`.

It starts five routers on this machine and clients that exchange messages, opens the page Topology in Chromium, and
waits until it shows rates. The picture is not the same twice: run this after a change of the page.
"""

from __future__ import annotations

import base64
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from proton import Message

from tests.kit.browser import Page, opened
from tests.kit.clients import Client, Receiver, Sender
from tests.kit.mesh import Edges, Mesh, wait_address
from tests.kit.ports import free_port
from waymesh_client.management import ManagementClient

WIDTH: Final = 1200
HEIGHT: Final = 760
EDGES: Final[Edges] = [(1, 0), (2, 1), (3, 2), (3, 0), (4, 0)]
COSTS: Final = {"DC": 2}
ADDRESSES: Final = (("orders", 0, 2, 40), ("invoices", 1, 3, 15), ("stock", 4, 2, 5))
"""Each with the router of its producer, that of its consumer, and the messages of a turn."""
DEADLINE_S: Final = 60.0
SHOWN: Final = "document.querySelectorAll('.graph line').length"
WIDEST: Final = (
    "Math.max(...[...document.querySelectorAll('.graph line')].map(line => line.getAttribute('stroke-width')))"
)


def listen(mesh: Mesh, number: int, **attributes: object) -> int:
    """The port of a new listener of a router."""
    port = free_port()
    with ManagementClient(mesh[number].url) as client:
        client.create("listener", {"host": "127.0.0.1", "port": str(port), **attributes}, name=f"listener{port}")
    return port


def exchange(sending: Sender, taking: Receiver, count: int) -> None:
    """So many messages, from the producer to the consumer."""
    taking.flow(count)
    for _ in range(count):
        sending.send(Message(body="x" * 100))
    taking.take(count)


def traffic(stack: ExitStack, mesh: Mesh) -> Callable[[], None]:
    """Connect the clients; each call exchanges a turn of messages."""
    turns: list[Callable[[], None]] = []
    for address, producer, consumer, count in ADDRESSES:
        service = stack.enter_context(Client(mesh[consumer].url, container_id=f"{address}-service"))
        taking = service.receiver(address, credit=1)
        wait_address(mesh[producer], address, remote=1)
        sending = stack.enter_context(Client(mesh[producer].url, container_id=f"{address}-shop")).sender(address)

        turns.append(partial(exchange, sending, taking, count))
    for number in (0, 2):  # brokers
        port = listen(mesh, number, role="route-container")
        stack.enter_context(Client(f"amqp://127.0.0.1:{port}", container_id=f"broker-{number}"))

    def turn() -> None:
        for one in turns:
            one()

    return turn


def take(page: Page, address: str, turn: Callable[[], None]) -> bytes:
    """The picture, when all routers are there and their rates have been measured twice."""
    page.visit(f"{address}#/topology?node=A")
    deadline = time.monotonic() + DEADLINE_S
    while page.run(SHOWN) < len(EDGES) + 5 or float(page.run(WIDEST)) < 2:
        if time.monotonic() > deadline:
            raise SystemExit(f"the page shows {page.run(SHOWN)} lines after {DEADLINE_S:.0f} s")
        turn()
    ends = time.monotonic() + 5  # further readings, so that the rates are those of all clients
    while time.monotonic() < ends:
        turn()
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": 1}
    return base64.b64decode(page.call("Page.captureScreenshot", format="png", clip=clip)["data"])


def main() -> None:
    """Write the picture to the file that is the argument."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "browser").mkdir()
        mesh = Mesh(folder, 5, EDGES, costs=COSTS)
        for router in mesh.routers:
            stack.callback(router.stop)
        mesh.start()
        page = stack.enter_context(opened(folder / "browser"))
        page.look(WIDTH, "light")
        page.call("Emulation.setScrollbarsHidden", hidden=True)
        port = listen(mesh, 0, http=True, console=True)
        Path(sys.argv[1]).write_bytes(take(page, f"http://127.0.0.1:{port}/console/", traffic(stack, mesh)))


if __name__ == "__main__":
    main()
