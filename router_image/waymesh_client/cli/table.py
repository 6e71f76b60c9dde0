"""Tables in qdstat's plain style, which scripts parse: a title, headings, a rule, rows; columns two blanks apart."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from waymesh_schema.text import one_line

_PREFIX = "  "
_SPACING = 2


def format_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table as text, left-aligned, without a final line end; without rows, only the title. Cells are escaped,
    because names chosen by clients may contain terminal control sequences and line ends."""
    if not rows:
        return title
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(heading), *(len(row[n]) for row in rows)) for n, heading in enumerate(headings)]
    rule = "=" * (sum(widths) + _SPACING * len(widths))
    lines = [title, _line(headings, widths), _PREFIX + rule]
    lines += [_line(row, widths) for row in rows]
    return "\n".join(lines)


def format_csv(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table as comma-separated quoted text under its title."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows(rows)
    return f"{title}\n{text.getvalue().rstrip()}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    gap = " " * _SPACING
    return (_PREFIX + gap.join(cell.ljust(width) for cell, width in zip(cells, widths))).rstrip()
