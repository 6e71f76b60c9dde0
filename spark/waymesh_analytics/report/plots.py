"""The pictures of the report as SVG: the same for the same data, to the byte."""

from __future__ import annotations

import io
from collections import defaultdict
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from waymesh_analytics.hours import hour_start

from .report import Report

MOST_LINES = 8
MOST_BARS = 20
MOST_ROUTERS = 40
MOST_NUMBERS = 12
"""Routers whose deliveries are written into the matrix."""
_STYLE = {
    "svg.hashsalt": "waymesh",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def _svg(figure: Any) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight", transparent=True)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def _figure(width: float, height: float) -> tuple[Any, Any]:
    figure = Figure(figsize=(width, height))
    return figure, figure.add_subplot()


def plots(report: Report) -> dict[str, str]:
    """SVG by the table that each belongs to; none for a table without rows."""
    drawn = {"outcomes": _throughput, "latency": _latency, "traffic": _matrix}
    with mpl.rc_context(_STYLE):
        found = {name: draw(report) for name, draw in drawn.items() if report.tables[name].rows}
    return {name: svg for name, svg in found.items() if svg}


def _throughput(report: Report) -> str:
    """Deliveries of each hour, and what is expected, of the busiest addresses; nothing for a single hour."""
    series = report.series.deliveries
    if len({hour for values in series.values() for hour in values}) < 2:
        return ""
    figure, axes = _figure(9, 3)
    busiest = sorted(series, key=lambda key: (-sum(series[key].values()), str(key)))[:MOST_LINES]
    expected: dict[Any, dict[Any, Any]] = defaultdict(dict)
    for row in report.tables["forecast"].dicts():
        expected[row["address"], row["phase"]][row["hour"]] = row["deliveries"]
    for number, key in enumerate(busiest):
        hours = sorted(series[key])
        name = f"{key[0]}" if not key[1] else f"{key[0]} (phase {key[1]})"
        axes.plot(
            [hour_start(h) for h in hours], [series[key][h] for h in hours], f"C{number}.-", label=name, linewidth=1
        )
        axes.plot(list(expected[key]), list(expected[key].values()), f"C{number}:", linewidth=1)
    axes.set_ylabel("deliveries an hour")
    axes.set_ylim(bottom=0)
    axes.tick_params(axis="x", rotation=30)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return _svg(figure)


def _latency(report: Report) -> str:
    """Percentiles of the slowest addresses."""
    rows = report.tables["latency"].dicts()[:MOST_BARS][::-1]
    figure, axes = _figure(9, 0.8 + 0.25 * len(rows))
    for number, (name, label) in enumerate({"p50": "p50", "p90": "p90", "p99": "p99", "p999": "p99.9"}.items()):
        axes.plot([row[f"{name}_us"] / 1000 for row in rows], range(len(rows)), f"C{number}o", label=label)
    axes.set_yticks(range(len(rows)), [str(row["address"]) for row in rows])
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds to settlement")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return _svg(figure)


def _matrix(report: Report) -> str:
    """Deliveries from router to router."""
    cells: dict[tuple[str, str], float] = defaultdict(float)
    weight: dict[str, float] = defaultdict(float)
    for row in report.tables["traffic"].dicts():
        here, there, count = str(row["ingress"]), str(row["egress"]), float(row["deliveries"] or 0)
        cells[here, there] += count
        weight[here] += count
        weight[there] += count
    names = sorted(sorted(weight, key=lambda name: (-weight[name], name))[:MOST_ROUTERS])
    cell = 0.6 if len(names) <= MOST_NUMBERS else 0.3
    figure, axes = _figure(1.5 + cell * len(names), 1 + cell * len(names))
    # Blues, for they can be read when the page inverts them for a dark screen, too.
    image = axes.imshow([[cells[here, there] for there in names] for here in names], cmap="Blues", vmin=0)
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    if len(names) <= MOST_NUMBERS:
        middle = max(cells.values()) / 2
        for (here, there), count in cells.items():
            colour = "white" if count > middle else "black"
            axes.text(names.index(there), names.index(here), f"{count:,.0f}", ha="center", va="center", color=colour)
    axes.set_xlabel("out at")
    axes.set_ylabel("in at")
    figure.colorbar(image, ax=axes, label="deliveries", shrink=0.8)
    return _svg(figure)
