"""What can go wrong in a way that the caller can mend."""

from __future__ import annotations


class AnalyticsError(Exception):
    """The text says what is wrong: no such input, an unreadable manifest, a window that ends before it begins."""


class StoreBusy(AnalyticsError):
    """Another run writes the store."""
