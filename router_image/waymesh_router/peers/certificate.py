"""The certificate of a peer, its validity, and when to warn of its end. Pure; times are seconds since 1970."""

from __future__ import annotations

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
