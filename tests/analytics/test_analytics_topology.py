"""The picture of the mesh, from made-up links."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent]
SVG = "{http://www.w3.org/2000/svg}"


def link(one: int | str, other: int | str, deliveries: int = 10, **values: int) -> Any:
    from waymesh_analytics.report.tables.mesh import MeshLink

    losses = {"dropped": 0, "broken": 0} | values
    first, second = (name if isinstance(name, str) else f"mesh-{name}" for name in (one, other))
    return MeshLink(first, second, cost=1, forth=deliveries, back=0, **losses)


def tree(count: int) -> list[Any]:
    """A mesh in which each router has three below it."""
    return [link((number - 1) // 3, number, number) for number in range(1, count)]


def full(count: int) -> list[Any]:
    """All are linked to all."""
    return [link(one, other) for one, other in itertools.combinations(range(count), 2)]


def drawn(links: list[Any], boots: tuple[str, ...] = ()) -> Xml.Element:
    from waymesh_analytics.report.topology import picture

    text = picture(links, [SimpleNamespace(router=name) for name in boots])  # type: ignore[misc]
    assert text == picture(links, [SimpleNamespace(router=name) for name in boots])  # type: ignore[misc]
    return Xml.fromstring(text)


@pytest.mark.parametrize(("mesh", "count"), [(full, 3), (tree, 7), (tree, 20), (full, 20), (tree, 100), (full, 60)])
def test_all_routers_stand_apart_and_inside(mesh: Callable[[int], list[Any]], count: int) -> None:
    links = mesh(count)
    picture = drawn(links)
    width, height = map(float, picture.attrib["viewBox"].split()[2:])
    places = [(float(node.attrib["cx"]), float(node.attrib["cy"])) for node in picture.iter(f"{SVG}circle")]
    assert len(places) == len({name for each in links for name in (each.router, each.neighbour)})
    assert all(20 < x < width - 20 and 20 < y < height - 20 for x, y in places)
    nearest = min(abs(ax - bx) + abs(ay - by) for (ax, ay), (bx, by) in itertools.combinations(places, 2))
    assert nearest > 16, "two circles do not overlap"


def test_widths_follow_traffic_and_losses_are_red_and_named() -> None:
    links = [link("A", "B", 100), link("B", "C", 25, broken=2), link("A", "C", 0, dropped=7)]
    picture = drawn(links, ("A", "B", "C", "C"))
    lines = {line.find(f"{SVG}title").text: line for line in picture.iter(f"{SVG}line")}  # type: ignore[union-attr]
    ab, bc, ac = (next(line for text, line in lines.items() if text and text.startswith(way)) for way in WAYS)
    widths = [float(line.attrib["stroke-width"]) for line in (ab, bc, ac)]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 2 * widths[2]
    assert [line.attrib["class"] for line in (ab, bc, ac)] == ["link", "lossy", "lossy"]
    assert "B → C: 25 deliveries, back: 0; broke 2 times" in lines
    assert {text.text for text in picture.iter(f"{SVG}text")} >= {"A", "B", "C", "100", "broke 2 times", "7 dropped"}
    assert [node.attrib["class"] for node in picture.iter(f"{SVG}circle")] == ["router", "router", "restarted"]


WAYS = ("A → B", "B → C", "A → C")


def test_the_words_say_the_same() -> None:
    from waymesh_analytics.report.topology import caption

    boots: Any = [SimpleNamespace(router=name) for name in ("A", "B", "C", "C")]
    assert caption([link("A", "B"), link("B", "C", broken=1)], boots) == (
        "3 routers, 2 links; the wider, the more deliveries. Filled red: restarted routers (C). "
        "Red, dashed: losses at B – C (broke once)."
    )
    assert caption([link("A", "B")], []).endswith("No link had losses.")
    many = caption([link(number, number + 1, broken=1) for number in range(120)], [])
    assert "and 115 more" in many
    assert "shows the 100 routers" in many


def test_names_are_escaped_and_shortened() -> None:
    hostile = "<script>alert(1)</script>"
    texts = [text.text for text in drawn([link("A", hostile)]).iter(f"{SVG}text")]
    assert "<script>alert…" in texts


def test_the_busiest_of_too_many() -> None:
    picture = drawn([link(0, number, number) for number in range(1, 300)])
    names = {title.text for title in picture.iter(f"{SVG}title") if re.fullmatch(r"mesh-\d+", title.text or "")}
    assert len(names) == 100
    assert "mesh-299" in names


def test_no_routers_no_picture() -> None:
    from waymesh_analytics.report.topology import picture

    assert picture([], []) == ""
    assert len(list(drawn([], ("A",)).iter(f"{SVG}circle"))) == 1
