"""Errors that the user can correct."""

from __future__ import annotations


class AnalyticsError(Exception):
    """The run cannot be done; the text says why."""


class StoreBusy(AnalyticsError):
    """Another run is writing to the store."""
