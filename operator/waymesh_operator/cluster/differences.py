"""Whether a live object differs from what we set.

The API server adds defaults and fields of its own, and writes quantities in its own words. All that is no difference: a
resync at rest must make no request. What we set once and set no more shows in the digest of the manifest alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

_KEYS = ("name", "mountPath", "containerPort", "uid")
"""What tells the items of a list apart, where they have it."""
_EXACT = ("matchLabels", "nodeSelector", "selector")
"""Maps that are one value: a key that we did not set makes a difference, and applying takes it away."""
_QUANTITIES = ("limits", "requests")
_SUFFIXES = {
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate(("n", "u", "m", "", *"kMGTPE"), -3)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}


def needs_apply(wanted: Mapping[str, Any], live: Mapping[str, Any] | None) -> bool:
    """Whether applying `wanted` would change any field that we set, or take one back that we did set."""
    return live is None or not _within(wanted, live, "")


def _within(wanted: Any, live: Any, field: str) -> bool:
    """Whether all that is wanted is there. `field` is the name of the field that holds both."""
    if isinstance(wanted, Mapping):
        return _map_within(wanted, live if isinstance(live, Mapping) else {}, field)
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return _list_within(wanted, live if isinstance(live, Sequence) else ())
    return bool(wanted == live)


def _map_within(wanted: Mapping[str, Any], live: Mapping[str, Any], field: str) -> bool:
    if field in _EXACT and wanted.keys() != live.keys():
        return False
    if field in _QUANTITIES:
        return all(_quantity(value) == _quantity(live.get(name)) for name, value in wanted.items())
    return all(_within(value, live.get(name), name) for name, value in wanted.items())


def _list_within(wanted: Sequence[Any], live: Sequence[Any]) -> bool:
    """Items that can be told apart may have others among them, that somebody else put there; other lists are one
    value."""
    for key in _KEYS:
        if wanted and all(isinstance(item, Mapping) and key in item for item in wanted):
            there = {item.get(key): item for item in live if isinstance(item, Mapping)}
            return all(item[key] in there and _within(item, there[item[key]], "") for item in wanted)
    return len(wanted) == len(live) and all(_within(item, other, "") for item, other in zip(wanted, live))


def _quantity(value: Any) -> Any:
    """A quantity as a number: "0.5" and "500m" are the same. What is none stays as it is."""
    text = str(value)
    digits = text.rstrip("nukmKMGTPEi")
    try:
        return Decimal(digits) * _SUFFIXES[text[len(digits) :]]
    except (InvalidOperation, KeyError):
        return text
