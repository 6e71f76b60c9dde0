"""Which warnings of the expiry of certificates are due. Pure; times are seconds since 1970."""

from __future__ import annotations

import math

from waymesh_router.peers.certificate import Validity


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
