"""Draws the pictures of docs/concepts.md and docs/concepts-kubernetes.md: `python tools/pictures.py`."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "pictures"
STYLE: Final = """\
text { font: 14px sans-serif; fill: #1c2733; text-anchor: middle }
.small { font-size: 12px; fill: #44546a }
.router { fill: #2463a8; stroke: #17406e } .router-text { fill: #ffffff; font-weight: bold }
.box { fill: #f3f6fa; stroke: #7b8ea6 } .broker { fill: #fff4dd; stroke: #b98a2f }
.way { stroke: #1c2733; stroke-width: 2; fill: none }
.back { stroke: #2f7d4f; stroke-width: 2; stroke-dasharray: 5 4; fill: none }
.back-text { fill: #2f7d4f; font-size: 12px }"""
WIDTH: Final = 760


@dataclass(frozen=True, slots=True)
class Node:
    """Something with a place: `kind` is router, broker or box; `x`, `y`: its centre in pixels."""

    name: str
    x: int
    y: int
    kind: str = "box"
    below: str = ""
    width: int = 130


@dataclass(frozen=True, slots=True)
class Way:
    """An arrow between two nodes; `back`: that of an outcome. `shift`: pixels by which it is moved down."""

    start: str
    end: str
    text: str = ""
    back: bool = False
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Picture:
    """`says`: the text for those who do not see it."""

    says: str
    height: int
    nodes: Sequence[Node]
    ways: Sequence[Way]


PICTURES: Final[Mapping[str, Picture]] = {
    "message": Picture(
        "A producer sends a message to router mesh-0, which passes it to mesh-1 and on to a consumer. The outcome, "
        "accepted, goes back the same way to the producer.",
        130,
        (
            Node("producer", 80, 60),
            Node("mesh-0", 280, 60, "router"),
            Node("mesh-1", 480, 60, "router"),
            Node("consumer", 680, 60),
        ),
        (
            Way("producer", "mesh-0", "orders", shift=-10),
            Way("mesh-0", "mesh-1", "", shift=-10),
            Way("mesh-1", "consumer", "orders", shift=-10),
            Way("consumer", "mesh-1", "accepted", back=True, shift=10),
            Way("mesh-1", "mesh-0", "", back=True, shift=10),
            Way("mesh-0", "producer", "accepted", back=True, shift=10),
        ),
    ),
    "broker": Picture(
        "Three ways of a message. An address of the mesh alone: producer, mesh, consumer. A waypoint: the producer's "
        "messages go by an AutoLink of direction out to a queue, and from it by one of direction in to the consumer. A "
        "LinkRoute: the client's link leads through the mesh straight to the broker.",
        330,
        (
            Node("producer ", 80, 50),
            Node("mesh ", 330, 50, "router"),
            Node("consumer ", 580, 50, below="no broker"),
            Node("producer", 80, 150),
            Node("mesh", 330, 150, "router"),
            Node("queue", 580, 150, "broker", "waypoint"),
            Node("consumer", 330, 230),
            Node("client", 80, 290),
            Node("mesh  ", 330, 290, "router"),
            Node("queue or topic", 580, 290, "broker", "LinkRoute"),
        ),
        (
            Way("producer ", "mesh "),
            Way("mesh ", "consumer "),
            Way("producer", "mesh"),
            Way("mesh", "queue", "AutoLink: out", shift=-10),
            Way("queue", "mesh", "AutoLink: in", shift=12),
            Way("mesh", "consumer"),
            Way("client", "mesh  ", "one link"),
            Way("mesh  ", "queue or topic", "of the client's"),
        ),
    ),
    "operator": Picture(
        "You apply resources to the API server. The operator watches them, keeps a StatefulSet with the routers and "
        "the Services, and changes running routers by AMQP management. What it sees there becomes the status.",
        250,
        (
            Node("you", 80, 60, below="kubectl, helm, Git", width=120),
            Node("resources", 300, 60, below="Router, Address …"),
            Node("operator", 600, 60),
            Node("StatefulSet, Services", 300, 190, below="and Secrets, policies", width=190),
            Node("mesh-0", 500, 190, "router", width=80),
            Node("mesh-1", 600, 190, "router", width=80),
            Node("mesh-2", 700, 190, "router", width=80),
        ),
        (
            Way("you", "resources"),
            Way("resources", "operator", "watches", shift=-8),
            Way("operator", "resources", "status", back=True, shift=10),
            Way("operator", "StatefulSet, Services"),
            Way("StatefulSet, Services", "mesh-0", "pods"),
            Way("operator", "mesh-1", "management"),
        ),
    ),
}


def draw(picture: Picture) -> str:
    """The picture as SVG."""
    nodes = {node.name: node for node in picture.nodes}
    says = html.escape(picture.says)
    box = f"0 0 {WIDTH} {picture.height}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img" aria-label="{says}">',
        f"<title>{says}</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#1c2733"/></marker><marker id="back" viewBox="0 0 8 8" refX="7" refY="4" '
        'markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#2f7d4f"/></marker></defs>',
        *(_way(nodes[way.start], nodes[way.end], way) for way in picture.ways),
        *map(_node, picture.nodes),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _node(node: Node) -> str:
    left, top, text = node.x - node.width // 2, node.y - 20, html.escape(node.name.strip())
    style = "router-text" if node.kind == "router" else ""
    shape = f'<rect class="{node.kind}" x="{left}" y="{top}" width="{node.width}" height="40" rx="6"/>'
    below = f'<text class="small" x="{node.x}" y="{node.y + 36}">{html.escape(node.below)}</text>' if node.below else ""
    return f'{shape}<text class="{style}" x="{node.x}" y="{node.y + 5}">{text}</text>{below}'


def _way(start: Node, end: Node, way: Way) -> str:
    x1, y1 = _edge(start, end)
    x2, y2 = _edge(end, start)
    kind, tip = ("back", "back") if way.back else ("way", "tip")
    y1, y2 = y1 + way.shift, y2 + way.shift
    at = (y1 + y2) // 2 + (16 if way.back or way.shift > 0 else -6)
    style = "back-text" if way.back else "small"
    text = f'<text class="{style}" x="{(x1 + x2) // 2}" y="{at}">{html.escape(way.text)}</text>' if way.text else ""
    return f'<path class="{kind}" d="M{x1} {y1} L{x2} {y2}" marker-end="url(#{tip})"/>{text}'


def _edge(of: Node, towards: Node) -> tuple[int, int]:
    """Where an arrow touches a node: at its side, or, if the other is above or below, at its top or bottom."""
    if abs(towards.x - of.x) < of.width // 2 + 10:
        return of.x, of.y + (20 if towards.y > of.y else -20)
    return of.x + (of.width // 2 if towards.x > of.x else -of.width // 2), of.y


def main() -> None:
    """Write all pictures."""
    for name, picture in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(picture), encoding="utf-8")
        print(f"{name}.svg")


if __name__ == "__main__":
    main()
