"""Positions of the routers in the picture of the mesh; the same mesh gives the same picture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

Point = tuple[float, float]

FEW = 4
"""Up to this many routers are placed on a circle, whatever their links."""
DENSE_SHARE = 0.4
"""With this share of all possible links or more, a circle is the clearest."""
ITERATIONS = 300
SEED = 1
ROOM: Point = (64.0, 40.0)
"""The space for a router with its name, in pixels."""
CIRCLE_ROOM: Point = (72.0, 72.0)
"""The space for names outside of a circle."""
PUSHES = 200
"""Number of rounds in which routers that are too close move apart."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions in pixels."""

    places: Mapping[str, Point]
    width: float
    height: float
    on_circle: bool


def lay_out(names: Sequence[str], pairs: Iterable[tuple[str, str]]) -> Layout:
    """Return positions for routers linked by `pairs`: on a circle for few routers or many links, else by springs."""
    ordered = sorted(names, key=_natural)
    graph = nx.Graph()
    graph.add_nodes_from(ordered)
    graph.add_edges_from(sorted(pairs))
    count = len(ordered)
    on_circle = count <= FEW or graph.number_of_edges() >= DENSE_SHARE * count * (count - 1) / 2
    circle = {
        name: (-math.cos(math.tau * number / count + math.pi / 2), -math.sin(math.tau * number / count + math.pi / 2))
        for number, name in enumerate(ordered)
    }
    width = 240 + 88 * math.sqrt(count)
    height = width if on_circle and count > FEW else 0.75 * width
    if on_circle:
        return Layout(_scale(circle, width, height, CIRCLE_ROOM), width, height, on_circle)
    springs = nx.spring_layout(graph, pos=circle, iterations=ITERATIONS, seed=SEED)
    places = {name: (float(x), float(y)) for name, (x, y) in springs.items()}
    return Layout(_apart(_scale(places, width, height, ROOM), width, height), width, height, on_circle)


def _natural(name: str) -> tuple[str, int, str]:
    """mesh-2 comes before mesh-10."""
    start = name.rstrip("0123456789")
    digits = name[len(start) :]
    return (start, int(digits) if digits else -1, name)


def _scale(places: Mapping[str, Point], width: float, height: float, room: Point) -> dict[str, Point]:
    """Scale the positions to the whole picture, with space for names at its borders."""

    def stretched(values: Sequence[float], size: float, border: float) -> list[float]:
        low, high = min(values), max(values)
        if high - low < 1e-6:
            return [size / 2] * len(values)
        return [border + (value - low) / (high - low) * (size - 2 * border) for value in values]

    xs = stretched([x for x, _ in places.values()], width, room[0])
    ys = stretched([y for _, y in places.values()], height, room[1])
    return dict(zip(places, zip(xs, ys)))


def _apart(places: Mapping[str, Point], width: float, height: float) -> dict[str, Point]:
    """Move positions apart that are within each other's space, as far as possible."""
    names = list(places)
    xs, ys = [places[name][0] for name in names], [places[name][1] for name in names]
    for _ in range(PUSHES):
        moved = False
        for one in range(len(names)):
            for other in range(one):
                across = ROOM[0] - abs(xs[one] - xs[other])
                down = ROOM[1] - abs(ys[one] - ys[other])
                if across <= 0 or down <= 0:
                    continue
                moved = True
                coordinates, push = (xs, across / 2 + 0.5) if across < down else (ys, down / 2 + 0.5)
                sign = 1 if coordinates[one] >= coordinates[other] else -1
                coordinates[one] += sign * push
                coordinates[other] -= sign * push
        xs = [min(max(x, ROOM[0]), width - ROOM[0]) for x in xs]
        ys = [min(max(y, ROOM[1]), height - ROOM[1]) for y in ys]
        if not moved:
            break
    return dict(zip(names, zip(xs, ys)))
