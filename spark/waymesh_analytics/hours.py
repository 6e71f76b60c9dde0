"""Hours as text, `2026-01-31T05` (UTC): they sort as they follow each other and stand in paths as they are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from .errors import AnalyticsError

_FORMAT = "%Y-%m-%dT%H"
FIRST, LAST = "0000", "9999"
"""Before and behind every hour."""


def hour_of(dt: str, hr: int) -> str:
    """The hour of a file: `dt` as 2026-01-31, `hr` from 0 to 23."""
    return f"{dt}T{hr:02d}"


def moment_of(hour: str) -> datetime:
    """When an hour begins."""
    return datetime.strptime(hour, _FORMAT).replace(tzinfo=UTC)


def text_of(moment: datetime) -> str:
    """The hour that a moment is in; a moment without a zone is UTC."""
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC).strftime(_FORMAT)


def shifted(hour: str, hours: float) -> str:
    """The hour so many hours later."""
    return text_of(moment_of(hour) + timedelta(hours=hours))


def hours_between(first: str, last: str) -> list[str]:
    """All hours from the first to the last, both included."""
    count = int((moment_of(last) - moment_of(first)).total_seconds()) // 3600
    return [shifted(first, step) for step in range(count + 1)]


def parse_moment(text: str) -> datetime:
    """A moment of the command line: 2026-01-31, 2026-01-31T05, 2026-01-31T05:30, with or without a zone (then UTC).

    Raises AnalyticsError for anything else.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise AnalyticsError(f"not a moment: {text!r} (as 2026-01-31 or 2026-01-31T05:00)") from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Window:
    """Whole hours: from `first`, up to and without `end`."""

    first: str = FIRST
    end: str = LAST

    def __contains__(self, hour: str) -> bool:
        return self.first <= hour < self.end


def window(begin: datetime | None, end: datetime | None) -> Window:
    """The hours that hold [begin, end); None: no limit. Raises AnalyticsError where that is no hour."""
    first = FIRST if begin is None else text_of(begin)
    stop = LAST if end is None else text_of(end + timedelta(hours=1) - timedelta(microseconds=1))
    if first >= stop:
        raise AnalyticsError(f"the window ends before it begins: {first} to {stop}")
    return Window(first, stop)
