"""The plots of the report as SVG; the same data gives the same bytes."""

from __future__ import annotations

import io
import math
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import matplotlib as mpl
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from waymesh_analytics.hours import hour_start

from . import topology
from .report import Report
from .tables.deliveries import Latency, Traffic
from .tables.history import Forecast
from .tables.hours import Hour

ONE_HOUR = timedelta(hours=1)
MOST_LINES = 8
MOST_BARS = 20
MOST_ROUTERS = 40
MOST_NUMBERS = 12
"""Up to this many routers, the matrix shows numbers too."""
_STYLE = {
    "svg.hashsalt": "waymesh",
    "svg.fonttype": "none",
    "text.parse_math": False,  # names may have any characters
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
    """SVG by the name of the table that each belongs to; none for tables without rows."""
    drawings = {"mesh_links": _mesh, "hours": _hours, "outcomes": _throughput, "latency": _latency, "traffic": _matrix}
    with mpl.rc_context(_STYLE):
        found = {name: draw(report) for name, draw in drawings.items() if report.tables[name].rows}
    return {name: svg for name, svg in found.items() if svg}


def _mesh(report: Report) -> str:
    return topology.picture(report.tables["mesh_links"].rows, report.tables["routers"].rows)


def _hours(report: Report) -> str:
    """Traffic and latency of the mesh by hour, and of the week before; nothing for a single hour."""
    rows: list[Hour] = report.tables["hours"].rows[::-1]
    if len(rows) < 2:
        return ""
    figure = Figure(figsize=(9, 5))
    traffic, times = figure.subplots(2, 1, sharex=True)
    at = [row.hour for row in rows]
    _line(traffic, at, [row.deliveries for row in rows], "C0.-", "deliveries")
    _line(traffic, at, [row.week_ago_deliveries for row in rows], "C0:", "a week before")
    _line(traffic, at, [row.failed for row in rows], "C3.-", "failed")
    _line(traffic, at, [row.week_ago_failed for row in rows], "C3:", "a week before")
    traffic.set_ylabel("deliveries per hour")
    traffic.set_ylim(bottom=0)
    _line(times, at, [_ms(row.p50_us) for row in rows], "C2.-", "p50")
    _line(times, at, [_ms(row.week_ago_p50_us) for row in rows], "C2:", "a week before")
    _line(times, at, [_ms(row.p99_us) for row in rows], "C1.-", "p99")
    _line(times, at, [_ms(row.week_ago_p99_us) for row in rows], "C1:", "a week before")
    times.set_ylabel("milliseconds to settlement")
    times.set_yscale("log")
    _plain_numbers(times.yaxis)
    _times(times)
    for axes in (traffic, times):
        axes.grid(axis="y", alpha=0.3)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return _svg(figure)


def _line(axes: Any, at: Sequence[datetime], values: Sequence[float | None], form: str, label: str) -> None:
    """A line with gaps where hours or values are missing; none without any value."""
    if all(value is None for value in values):
        return
    times: list[datetime] = []
    points: list[float] = []
    for time, value in zip(at, values):
        if times and time - times[-1] > ONE_HOUR:
            times.append(times[-1] + ONE_HOUR)
            points.append(math.nan)
        times.append(time)
        points.append(math.nan if value is None else value)
    axes.plot(times, points, form, label=label, linewidth=1)


def _plain_numbers(axis: Any) -> None:
    """A logarithmic axis with 1, 2, 5, 10 instead of powers."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _times(axes: Any) -> None:
    """Dates and hours below, each once."""
    locator = AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.set_xlabel("UTC")


def _ms(microseconds: float | None) -> float | None:
    """In milliseconds, at least 0.001: a logarithmic scale cannot show 0."""
    return max(microseconds, 1) / 1000 if microseconds is not None else None


def _throughput(report: Report) -> str:
    """Deliveries by hour of the busiest addresses, and their forecast; nothing for a single hour."""
    series = report.series.deliveries
    if len({hour for values in series.values() for hour in values}) < 2:
        return ""
    figure, axes = _figure(9, 3)
    busiest = sorted(series, key=lambda key: (-sum(series[key].values()), str(key)))[:MOST_LINES]
    expected: dict[Any, dict[Any, Any]] = defaultdict(dict)
    forecasts: list[Forecast] = report.tables["forecast"].rows
    for row in forecasts:
        expected[row.address, row.phase][row.hour] = row.deliveries
    for number, key in enumerate(busiest):
        hours = sorted(series[key])
        name = f"{key[0]}" if not key[1] else f"{key[0]} (phase {key[1]})"
        axes.plot(
            [hour_start(h) for h in hours], [series[key][h] for h in hours], f"C{number}.-", label=name, linewidth=1
        )
        axes.plot(list(expected[key]), list(expected[key].values()), f"C{number}:", linewidth=1)
    axes.set_ylabel("deliveries per hour")
    axes.set_ylim(bottom=0)
    _times(axes)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return _svg(figure)


def _latency(report: Report) -> str:
    """Percentiles of the slowest addresses."""
    rows: list[Latency] = report.tables["latency"].rows[:MOST_BARS][::-1]
    figure, axes = _figure(9, 0.8 + 0.25 * len(rows))
    lines = {
        "p50": [row.p50_us for row in rows],
        "p90": [row.p90_us for row in rows],
        "p99": [row.p99_us for row in rows],
        "p99.9": [row.p999_us for row in rows],
    }
    for number, (label, values) in enumerate(lines.items()):
        axes.plot([value / 1000 for value in values], range(len(rows)), f"C{number}o", label=label)
    axes.set_yticks(range(len(rows)), [str(row.address) for row in rows])
    axes.set_xscale("log")
    _plain_numbers(axes.xaxis)
    axes.set_xlabel("milliseconds to settlement")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return _svg(figure)


def _matrix(report: Report) -> str:
    """Deliveries from router to router."""
    cells: dict[tuple[str, str], float] = defaultdict(float)
    weight: dict[str, float] = defaultdict(float)
    flows: list[Traffic] = report.tables["traffic"].rows
    for row in flows:
        here, there, count = str(row.ingress), str(row.egress), float(row.deliveries)
        cells[here, there] += count
        weight[here] += count
        weight[there] += count
    names = sorted(sorted(weight, key=lambda name: (-weight[name], name))[:MOST_ROUTERS])
    cell = 0.6 if len(names) <= MOST_NUMBERS else 0.3
    figure, axes = _figure(1.5 + cell * len(names), 1 + cell * len(names))
    # Blues stay readable when the page inverts the picture in dark mode.
    image = axes.imshow([[cells[here, there] for there in names] for here in names], cmap="Blues", vmin=0)
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    if len(names) <= MOST_NUMBERS:
        middle = max(cells.values()) / 2
        for (here, there), count in cells.items():
            colour = "white" if count > middle else "black"
            axes.text(names.index(there), names.index(here), f"{count:,.0f}", ha="center", va="center", color=colour)
    axes.set_xlabel("egress router")
    axes.set_ylabel("ingress router")
    figure.colorbar(image, ax=axes, label="deliveries", shrink=0.8)
    return _svg(figure)
