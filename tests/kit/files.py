"""Files that are replaced while a router reads them."""

from __future__ import annotations

from pathlib import Path


def replace_file(path: Path, content: bytes) -> Path:
    """Replace a file as a whole, as Kubernetes does; the path.

    Written in place, a reader could find half of it, or miss the change: its time stamp is coarse.
    """
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(content)
    return fresh.replace(path)
