"""The type of the function that receives the progress messages and warnings of a run."""

from __future__ import annotations

from collections.abc import Callable

Log = Callable[[str], None]
