"""Errors that the user can correct."""

from __future__ import annotations


class AnalyticsError(Exception):
    """The run is not possible; the text gives the reason."""


class StoreBusy(AnalyticsError):
    """Another run is writing to the store."""
