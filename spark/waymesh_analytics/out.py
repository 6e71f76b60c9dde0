"""Whether the output folder can be written, asked before the long work."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from .errors import AnalyticsError

PROBE_BYTES = 64 << 10
"""A file system without room for so much has none for a report."""


def require_writable(out: str) -> None:
    """Raises AnalyticsError if files cannot be written to a local folder, or to where it is to be created.

    Nothing is left there. Addresses of object stores are not examined.
    """
    if "://" in out:
        return
    folder = Path(out).absolute()
    try:
        while not os.path.lexists(folder):
            folder = folder.parent
        if not folder.is_dir():
            raise AnalyticsError(f"--out {out}: {folder} is not a folder")
        with tempfile.TemporaryFile(dir=folder, prefix=".waymesh-") as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise AnalyticsError(f"--out {out}: cannot write to {folder}: {error.strerror or error}") from error
