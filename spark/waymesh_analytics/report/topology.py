"""The picture of the mesh as SVG: routers, the links between them as wide as their traffic, and losses in red.

Its colours are those of the page, in light and dark; their meaning is also in texts and in the table of links.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from .layout import FEW, Layout, Point, lay_out
from .tables.mesh import MeshLink
from .tables.objects import Router

MOST_ROUTERS = 100
MOST_LINKS = 600
LABELLED_LINKS = 16
"""Up to this many links, each has its number of deliveries beside it."""
LISTED = 5
"""The caption names this many routers or links of each kind."""
LONGEST_NAME = 14
SHRINKS = 0.7
"""Down to this share of its size, a picture shrinks to the width of a phone; texts stay readable."""
RADIUS = 8.0
THINNEST, LOSSY, WIDEST = 1.2, 2.5, 9.0
"""Widths of links, in pixels: at least, at least with losses, at most."""
WIDE_LINKS = 50
"""With more links than this, all are thinner."""


def picture(links: Sequence[MeshLink], routers: Sequence[Router]) -> str:
    """The SVG, with the busiest links if there are too many; empty if there is no router."""
    boots = Counter(row.router for row in routers)
    names = _busiest(links, boots)
    if not names:
        return ""
    shown = [link for link in links if link.router in names and link.neighbour in names]
    layout = lay_out(sorted(names), [(link.router, link.neighbour) for link in shown])
    drawn = sorted(shown, key=lambda link: (not link.lossy, -link.deliveries, link.router, link.neighbour))[:MOST_LINKS]
    most = max((link.deliveries for link in drawn), default=0)
    widest = max(LOSSY, WIDEST * min(1.0, WIDE_LINKS / max(1, len(drawn))))
    # Links with losses come last, above the others.
    lines = [_line(link, layout.places, _width(link, most, widest)) for link in reversed(drawn)]
    labels = [_label(link, layout.places) for link in drawn] if len(drawn) <= LABELLED_LINKS else []
    nodes = [_node(name, boots[name], layout) for name in sorted(names)]
    width, height = f"{layout.width:.0f}", f"{layout.height:.0f}"
    head = f'<svg class="mesh" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
    head += f'style="width: {width}px; min-width: {SHRINKS * layout.width:.0f}px">'
    return "\n".join([head, *lines, *labels, *nodes, "</svg>"])


def caption(links: Sequence[MeshLink], routers: Sequence[Router]) -> str:
    """Return a text description of the picture."""
    names = {row.router for row in routers} | {name for link in links for name in (link.router, link.neighbour)}
    lossy = [f"{link.router} – {link.neighbour} ({link.losses})" for link in links if link.lossy]
    boots = Counter(row.router for row in routers)
    restarted = [name for name in sorted(boots) if boots[name] > 1]
    text = f"{len(names):,} routers, {len(links):,} links; the wider, the more deliveries."
    text += f" Filled red: restarted routers ({_some(restarted)})." if restarted else ""
    text += f" Red, dashed: losses at {_some(lossy)}." if lossy else " No link had losses."
    if len(names) > MOST_ROUTERS or len(links) > MOST_LINKS:
        text += f" The picture shows the {MOST_ROUTERS} routers and {MOST_LINKS} links with most losses and traffic."
    return text


def _some(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - LISTED:,} more" if len(texts) > LISTED else ""
    return ", ".join(texts[:LISTED]) + more


def _busiest(links: Sequence[MeshLink], boots: Mapping[str, int]) -> set[str]:
    traffic = Counter(dict.fromkeys(boots, 0))
    for link in links:
        for name in (link.router, link.neighbour):
            traffic[name] += link.deliveries
    return set(sorted(traffic, key=lambda name: (-traffic[name], name))[:MOST_ROUTERS])


def _width(link: MeshLink, most: int, widest: float) -> float:
    share = link.deliveries / most if most else 0.0
    return max(LOSSY if link.lossy else 0.0, THINNEST + (widest - THINNEST) * math.sqrt(share))


def _line(link: MeshLink, places: Mapping[str, Point], width: float) -> str:
    (x1, y1), (x2, y2) = places[link.router], places[link.neighbour]
    losses = f"; {link.losses}" if link.lossy else ""
    told = f"{link.router} → {link.neighbour}: {link.forth:,} deliveries, back: {link.back:,}{losses}"
    return (
        f'<line class="{"lossy" if link.lossy else "link"}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke-width="{width:.1f}"><title>{escape(told)}</title></line>'
    )


def _label(link: MeshLink, places: Mapping[str, Point]) -> str:
    """The number of deliveries and the losses, in the middle of the link."""
    (x1, y1), (x2, y2) = places[link.router], places[link.neighbour]
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    text = f'<text class="count" x="{x:.1f}" y="{y + 4:.1f}">{_short(link.deliveries)}</text>'
    if link.lossy:
        text += f'<text class="loss" x="{x:.1f}" y="{y + 16:.1f}">{link.losses}</text>'
    return text


def _short(number: int) -> str:
    """At most four digits: 1.2k, 35M."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return str(number)


def _node(name: str, boots: int, layout: Layout) -> str:
    x, y = layout.places[name]
    shown = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
    told = name if boots < 2 else f"{name}: restarted {'once' if boots == 2 else f'{boots - 1:,} times'}"
    circle = f'<circle class="{"restarted" if boots > 1 else "router"}" cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS:g}"/>'
    return f"<g><title>{escape(told)}</title>{circle}<text {_beside(x, y, layout)}>{escape(shown)}</text></g>"


def _beside(x: float, y: float, layout: Layout) -> str:
    """Return the attributes that place a router's name: below it, or outside of the circle, rotated outwards."""
    if not layout.on_circle or len(layout.places) <= FEW:
        return f'x="{x:.1f}" y="{y + RADIUS + 13:.1f}"'
    angle = math.degrees(math.atan2(y - layout.height / 2, x - layout.width / 2))
    left = abs(angle) > 90
    turn = angle + 180 if left else angle
    away = -RADIUS - 4 if left else RADIUS + 4
    anchor = "end" if left else "start"
    return f'transform="translate({x:.1f} {y:.1f}) rotate({turn:.1f})" x="{away:g}" y="4" style="text-anchor: {anchor}"'
