"""Names of resources, from names and addresses that Kubernetes does not accept."""

from __future__ import annotations

import re

MOST = 60
"""Longer names are cut."""


def resource_name(text: str) -> str:
    """Convert the text to a name: lower-case letters, digits and hyphens, beginning with a letter."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:MOST].strip("-")
    return name if name[:1].isalpha() else f"r-{name}".strip("-")


class Names:
    """Gives each resource of a kind a unique name."""

    def __init__(self) -> None:
        self._taken: set[tuple[str, str]] = set()

    def choose(self, kind: str, text: str) -> str:
        """Return a name made from the text, with a number appended if the kind has that name already."""
        wanted = resource_name(text)
        name, number = wanted, 1
        while (kind, name) in self._taken:
            number += 1
            name = f"{wanted}-{number}"
        self._taken.add((kind, name))
        return name
