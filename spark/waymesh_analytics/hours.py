"""Hours as text, `2026-01-31T05` (UTC): they sort by time and can be used in paths."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from .errors import AnalyticsError

_FORMAT = "%Y-%m-%dT%H"
FIRST, LAST = "0000", "9999"
"""Texts that sort before and after every hour."""


def hour_of(dt: str, hr: int) -> str:
    """The hour of a file: `dt` as 2026-01-31, `hr` from 0 to 23."""
    return f"{dt}T{hr:02d}"


def hour_start(hour: str) -> datetime:
    """The start of an hour."""
    return datetime.strptime(hour, _FORMAT).replace(tzinfo=UTC)


def hour_text(time: datetime) -> str:
    """The hour of a time; UTC if the time has no zone."""
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).astimezone(UTC).strftime(_FORMAT)


def add_hours(hour: str, hours: float) -> str:
    """The hour that is `hours` later."""
    return hour_text(hour_start(hour) + timedelta(hours=hours))


def parse_time(text: str) -> datetime:
    """Parse a time of the command line: 2026-01-31, 2026-01-31T05, 2026-01-31T05:30; UTC if it has no zone.

    Raises AnalyticsError for anything else.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise AnalyticsError(f"not a time: {text!r} (expected e.g. 2026-01-31 or 2026-01-31T05:00)") from error
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Window:
    """Whole hours from `first` up to, but not including, `end`."""

    first: str = FIRST
    end: str = LAST

    def __contains__(self, hour: object) -> bool:
        return isinstance(hour, str) and self.first <= hour < self.end


def window(begin: datetime | None, end: datetime | None) -> Window:
    """The hours that contain [begin, end); None: no limit. Raises AnalyticsError if that is no hour."""
    first = FIRST if begin is None else hour_text(begin)
    stop = LAST if end is None else hour_text(end + timedelta(hours=1) - timedelta(microseconds=1))
    if first >= stop:
        raise AnalyticsError(f"the window ends before it begins: {first} to {stop}")
    return Window(first, stop)
