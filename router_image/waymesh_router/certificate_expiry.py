"""When certificates expire, and when to warn of it. Pure; times are seconds since 1970."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

DAY_S = 86400.0
BEFORE_S = (7 * DAY_S, DAY_S)
LAST_SHARE = 5
"""No warning comes before the last fifth of the lifetime: a certificate renewed daily causes no daily warnings."""


class Validity(NamedTuple):
    """The validity period of a certificate."""

    begin: float
    end: float

    @property
    def end_text(self) -> str:
        """The end as text, as in 2026-11-25T17:00:00Z."""
        return datetime.fromtimestamp(self.end, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def warning_times(self) -> list[float]:
        """Times of the warnings, earliest first."""
        share = (self.end - self.begin) / LAST_SHARE
        return sorted({self.end - min(before, share) for before in BEFORE_S})


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """The certificate with which a peer has authenticated. `number`: the serial number, in hexadecimal."""

    subject: str
    number: str
    validity: Validity


class ExpiryWarnings:
    """Decides which warnings are due, each at most once."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, Validity], int] = {}

    def due(self, certificate: str, validity: Validity, now: float) -> bool:
        """Whether a warning is due; it is then recorded as given. `certificate`: a unique name of the certificate."""
        if now >= validity.end:
            return False
        passed = sum(now >= at for at in validity.warning_times())
        if passed <= self._told.get((certificate, validity), 0):
            return False
        self._told = {key: count for key, count in self._told.items() if key[1].end > now}
        self._told[certificate, validity] = passed
        return True


def next_time(validity: Validity, now: float) -> float:
    """The time of the next warning or of the end; math.inf after the end."""
    return min((at for at in (*validity.warning_times(), validity.end) if at > now), default=math.inf)
