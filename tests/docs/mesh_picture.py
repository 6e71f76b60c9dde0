"""Draws a running mesh: `python -m tests.docs.mesh_picture docs/pictures/mesh.svg`.

It starts examples/mesh.yaml on this machine, connects clients, asks each router what it sees, and draws that. A test
compares the result with the committed picture.
"""

from __future__ import annotations

import html
import math
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from proton.utils import BlockingConnection

from tests.kit.local_mode import ROOT, Up, mesh_up
from waymesh_client.management import ManagementClient

CLIENTS: Final = ("shop", "packing", "billing", "newsroom", "site", "app", "mail")
ROUTERS: Final = ("mesh-0", "mesh-1", "mesh-2")
DEADLINE_S: Final = 20.0
WIDTH: Final = 760
HEIGHT: Final = 400
WIDE: Final = 130
HIGH: Final = 115
BOX_WIDTH: Final = 180
BOX_DISTANCE: Final = 58
LINE_HEIGHT: Final = 17
STYLE: Final = """\
text { font: 14px sans-serif; fill: #1c2733; text-anchor: middle }
.small { font-size: 12px; fill: #44546a }
.router { fill: #2463a8; stroke: #17406e } .name { fill: #ffffff; font-weight: bold }
.client { fill: #f3f6fa; stroke: #7b8ea6 }
.link { stroke: #2463a8; stroke-width: 3 } .connection { stroke: #7b8ea6; stroke-width: 1.5 }"""


@dataclass(frozen=True)
class Client:
    """A client of a router. `links`: its links, as text."""

    name: str
    links: Sequence[str]


@dataclass(frozen=True)
class Seen:
    """What a router says about itself."""

    name: str
    neighbours: Sequence[str]
    clients: Sequence[Client]


def connect(stack: ExitStack, url: str, name: str, *, receives: str = "", sends: str = "") -> None:
    """Attach a client with this container-id."""
    connection = BlockingConnection(url, timeout=DEADLINE_S, container_id=name)
    stack.callback(connection.close)
    if receives:
        connection.create_receiver(receives)
    else:
        connection.create_sender(sends)


def connect_clients(stack: ExitStack, urls: Sequence[str]) -> None:
    """A shop with two workers, and news with three readers."""
    connect(stack, urls[1], "packing", receives="orders/eu")
    connect(stack, urls[2], "billing", receives="orders/eu")
    for url, name in zip(urls, ("site", "app", "mail"), strict=True):
        connect(stack, url, name, receives="news.eu")
    connect(stack, urls[0], "shop", sends="orders/eu")
    connect(stack, urls[2], "newsroom", sends="news.eu")


def look(up: Up) -> list[Seen]:
    """Ask each router."""
    return [seen(name, up.client(name)) for name in ROUTERS]


def seen(name: str, management: ManagementClient) -> Seen:
    """Ask one router."""
    links = [link for link in management.query("router.link") if link["linkType"] == "endpoint"]
    found = []
    for connection in management.query("connection"):
        own = [link for link in links if link["connectionId"] == connection["identity"]]
        if connection["container"] in CLIENTS:
            found.append(Client(str(connection["container"]), [_text(link) for link in own]))
    direct = [row["id"] for row in management.query("router.node") if row.get("nextHop") is None]
    return Seen(name, sorted(other for other in direct if other != name), sorted(found, key=_name))


def _name(client: Client) -> str:
    return client.name


def _text(link: dict[str, Any]) -> str:
    """What a link is for. Addresses begin with their class and phase: `M0orders/eu` is orders/eu."""
    return f"{'receives' if link['linkDir'] == 'out' else 'sends to'} {link['owningAddr'][2:]}"


def draw(routers: Sequence[Seen]) -> str:
    """The picture, as SVG."""
    places = {router.name: _place(n, len(routers)) for n, router in enumerate(routers)}
    lines, shapes = [], []
    for router in routers:
        for other in router.neighbours:
            if router.name < other:
                lines.append(_line("link", places[router.name], places[other]))
    for router in routers:
        x, y = places[router.name]
        for m, client in enumerate(router.clients):
            at = _beside((x, y), m, len(router.clients))
            lines.append(_line("connection", (x, y), at))
            shapes.append(_box(at, client))
        shapes.append(f'<circle class="router" cx="{x}" cy="{y}" r="38"/>')
        shapes.append(f'<text class="name" x="{x}" y="{y + 5}">{html.escape(router.name)}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    title = "<title>A mesh of three routers and its clients</title>"
    return "\n".join([head, title, f"<style>{STYLE}</style>", *lines, *shapes, "</svg>", ""])


def _place(n: int, count: int) -> tuple[int, int]:
    """Of a router: around the centre, the first one on the left."""
    angle = math.pi + 2 * math.pi * n / count
    return WIDTH // 2 + round(WIDE * math.cos(angle)), HEIGHT // 2 + round(HIGH * math.sin(angle))


def _beside(router: tuple[int, int], n: int, count: int) -> tuple[int, int]:
    """Of a client: at the left or right edge, one below the other."""
    x = BOX_WIDTH // 2 + 1 if router[0] < WIDTH // 2 else WIDTH - BOX_WIDTH // 2 - 1
    return x, router[1] + round((n - (count - 1) / 2) * BOX_DISTANCE)


def _line(kind: str, one: tuple[int, int], other: tuple[int, int]) -> str:
    return f'<line class="{kind}" x1="{one[0]}" y1="{one[1]}" x2="{other[0]}" y2="{other[1]}"/>'


def _box(at: tuple[int, int], client: Client) -> str:
    height = LINE_HEIGHT * (1 + len(client.links)) + 12
    x, top = at[0], at[1] - height // 2
    texts = [f'<text x="{x}" y="{top + 20}">{html.escape(client.name)}</text>'] + [
        f'<text class="small" x="{x}" y="{top + 20 + LINE_HEIGHT * n}">{html.escape(link)}</text>'
        for n, link in enumerate(client.links, 1)
    ]
    box = f'<rect class="client" x="{x - BOX_WIDTH // 2}" y="{top}" width="{BOX_WIDTH}" height="{height}" rx="6"/>'
    return "\n".join([box, *texts])


def picture() -> str:
    """Of a mesh that runs for this purpose."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="waymesh-picture-")))
        up = stack.enter_context(mesh_up(folder, (ROOT / "examples" / "mesh.yaml").read_text(), "mesh is ready"))
        connect_clients(stack, [up.url(name) for name in ROUTERS])
        return draw(look(up))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(), encoding="utf-8")
