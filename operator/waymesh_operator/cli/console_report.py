"""The last report of `waymesh analyze`, for the page that `waymesh console` serves: from a folder, or from the pod that
serves the report of a cluster's analytics job.

Its page is shown in a frame that may do nothing (`FRAME_FIELDS`): the names in it were chosen by clients, and a folder
may come from anybody. Decision 0090.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from waymesh_operator.errors import WaymeshError

PAGE: Final = "report.html"
SUMMARY: Final = "summary.json"
MOST_BYTES: Final = 32 << 20
"""Of each file: a report lists so many rows of each table at most, and has a few MB."""
FRAME_POLICY: Final = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
"""No script, form, window or request of the report, and an origin of its own. Styles and pictures are in its page."""

Report = Callable[[str], bytes]
"""Returns the content of a file of the report. Blocks; raises WaymeshError, also if there is none."""


def in_folder(folder: Path) -> Report:
    """The report in the folder `--out` of `waymesh analyze`."""

    def read(name: str) -> bytes:
        try:
            with (folder / name).open("rb") as file:
                return checked(name, file.read(MOST_BYTES + 1))
        except OSError as error:
            raise WaymeshError(f"{folder / name}: {error.strerror}") from None

    return read


def in_cluster(context: str | None, namespace: str | None) -> Report:
    """The report of the analytics job in a namespace; None: that of the context."""
    from .forward import fetch_report  # the synchronous client is slow to import

    return lambda name: checked(name, fetch_report(context, namespace, name, MOST_BYTES + 1))


def checked(name: str, content: bytes) -> bytes:
    """The content, of which at most `MOST_BYTES` + 1 were read. Raises WaymeshError if it is larger."""
    if len(content) > MOST_BYTES:
        raise WaymeshError(f"{name} has more than {MOST_BYTES >> 20} MiB: open the file itself")
    return content


def summary(report: Report) -> dict[str, Any]:
    """What `summary.json` says; the page checks its fields. Raises WaymeshError."""
    try:
        found = json.loads(report(SUMMARY))
    except (ValueError, RecursionError):
        raise WaymeshError(f"{SUMMARY} is no JSON") from None
    if not isinstance(found, dict):
        raise WaymeshError(f"{SUMMARY} is no object")
    return found
