"""When a connection ends because its token does."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from waymesh_amqp.errors import UNAUTHORIZED_ACCESS
from waymesh_router.token_expiry import TokenExpiry

pytestmark = pytest.mark.engine_independent


class Connection:
    """Keeps how it was closed."""

    def __init__(self, expires_at: float) -> None:
        self.expires_at = expires_at
        self.closed: list[tuple[str, str]] = []

    def close(self, condition: str, description: str) -> None:
        self.closed.append((condition, description))


class Expiry:
    """A `TokenExpiry` with a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.expiry = TokenExpiry(cast(Any, SimpleNamespace(tokens=SimpleNamespace(now=lambda: self.now))))

    def opened(self, expires_at: float) -> Connection:
        connection = Connection(expires_at)
        self.expiry.opened(cast(Any, connection))
        return connection

    def tick(self, now: float) -> None:
        self.now = now
        self.expiry.tick(0.0)


def test_closed_once_at_the_expiry() -> None:
    expiry = Expiry()
    early, late, never = expiry.opened(110.0), expiry.opened(120.0), expiry.opened(math.inf)
    expiry.tick(109.9)
    assert not early.closed
    expiry.tick(110.0)
    expiry.tick(111.0)
    assert early.closed == [(UNAUTHORIZED_ACCESS, "token expired")]
    expiry.tick(1e12)
    assert len(late.closed) == 1
    assert not never.closed


def test_not_closed_after_its_end() -> None:
    expiry = Expiry()
    connection = expiry.opened(110.0)
    expiry.expiry.gone(cast(Any, connection))
    expiry.tick(200.0)
    assert not connection.closed


def test_expired_before_it_opened() -> None:
    expiry = Expiry()
    connection = expiry.opened(99.0)
    expiry.tick(100.0)
    assert connection.closed
