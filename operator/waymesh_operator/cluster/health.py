"""Whether the operator lives and is ready, told over HTTP together with its figures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from .metrics import Metrics

Check = Callable[[], str | None]
"""Says what is wrong, None for nothing."""


@dataclass(slots=True)
class Beat:
    """A heartbeat object that must come back through a watch after it was written.

    That the API server cannot be written to is no sign of a dead watch: a restart of the operator would not help.
    """

    patience_s: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _written: dict[str, float] = field(default_factory=dict)

    def written(self, token: str) -> None:
        """This beat is given to the API server. It may come back before the answer does."""
        self._written[token] = self.clock()

    def failed(self, token: str) -> None:
        """The API server did not take it."""
        self._written.pop(token, None)

    def returned(self, token: str) -> None:
        """A watch has brought it: those before it need not come any more."""
        at = self._written.get(token)
        if at is not None:
            self._written = {name: when for name, when in self._written.items() if when > at and name != token}

    def forget(self) -> None:
        """Nobody watches now."""
        self._written.clear()

    def check(self) -> str | None:
        """What is wrong, if anything."""
        waited = self.clock() - min(self._written.values(), default=self.clock())
        if waited <= self.patience_s:
            return None
        return f"the heartbeat did not come back through the watch for {waited:.0f} s"


@dataclass(slots=True)
class Health:
    """What is asked on each probe, by name."""

    alive: dict[str, Check] = field(default_factory=dict)
    ready: dict[str, Check] = field(default_factory=dict)

    def problems(self, checks: dict[str, Check]) -> dict[str, str]:
        """All that is wrong."""
        found = {name: check() for name, check in checks.items()}
        return {name: text for name, text in found.items() if text is not None}


class HealthServer:
    """GET /healthz, /readyz and /metrics."""

    def __init__(self, health: Health, metrics: Metrics) -> None:
        self._health = health
        self._metrics = metrics
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, port: int, host: str = "") -> None:
        """Listen on all addresses, or on one; port 0 takes a free one. Raises OSError."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._figures)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, host or None, port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Listen no more."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return _answer(self._health.problems(self._health.alive))

    async def _readyz(self, request: web.Request) -> web.Response:
        return _answer(self._health.problems(self._health.ready))

    async def _figures(self, request: web.Request) -> web.Response:
        body = generate_latest(self._metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _answer(problems: dict[str, str]) -> web.Response:
    text = "".join(f"{name}: {problem}\n" for name, problem in problems.items())
    return web.Response(status=503 if problems else 200, text=text or "ok\n")
