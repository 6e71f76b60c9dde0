"""The HTTP server of the operator, its log lines and its Events."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from tests.operator.fake_kube import FakeKube
from tests.operator.kit import resource
from waymesh_operator.errors import KubeError
from waymesh_operator.places.kubernetes.monitoring import Health, HealthServer, JsonFormatter, Metrics
from waymesh_operator.places.kubernetes.worker.environment import AGAIN_S, NORMAL, WARNING, EventRecorder

pytestmark = pytest.mark.engine_independent


def test_health_server_tells_each_problem_by_name() -> None:
    async def story() -> None:
        problem: list[str] = []
        health = Health(alive={"watch": lambda: problem[0] if problem else None})
        server = HealthServer(health, Metrics())
        await server.start(0, "127.0.0.1")
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
            async with session.get("/healthz") as answer:
                assert (answer.status, await answer.text()) == (200, "ok\n")
            problem.append("dead")
            async with session.get("/healthz") as answer:
                assert (answer.status, await answer.text()) == (503, "watch: dead\n")
            async with session.get("/readyz") as answer:
                assert answer.status == 200
            async with session.get("/metrics") as answer:
                assert "waymesh_operator_queue_depth 0.0" in await answer.text()
        await server.stop()

    asyncio.run(story())


def test_metrics_of_a_mesh_that_is_gone_are_dropped() -> None:
    metrics = Metrics()
    metrics.converged.labels("ns", "mesh").set(1)
    metrics.reconciles.labels("ns", "mesh", "done").inc()
    metrics.forget("ns", "mesh")
    metrics.forget("ns", "never-seen")
    assert not next(iter(metrics.converged.collect())).samples


def test_logs_are_one_json_object_a_line_with_what_was_given_besides() -> None:
    try:
        raise ValueError("bad")
    except ValueError:
        record = logging.LogRecord("a.b", logging.WARNING, __file__, 1, "turn %s", ("failed",), sys.exc_info())
    record.router = "mesh"
    line = json.loads(JsonFormatter().format(record))
    assert (line["level"], line["logger"], line["message"], line["router"]) == ("warning", "a.b", "turn failed", "mesh")
    assert "ValueError: bad" in line["exception"]
    assert line["time"].endswith("Z")


def test_reporter_tells_the_same_once_and_counts_when_it_lasts() -> None:
    async def story() -> None:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        kube = FakeKube()
        recorder = EventRecorder(kube, lambda: now)
        router = kube.put(resource("Router", "mesh", size=1))
        for _ in range(3):
            await recorder.record(router, WARNING, "StepFailed", "no quota")
        (event,) = kube.select("Event")
        assert (event["count"], event["type"], event["involvedObject"]["name"]) == (1, "Warning", "mesh")
        now += timedelta(seconds=AGAIN_S)
        await recorder.record(router, WARNING, "StepFailed", "no quota")
        await recorder.record(router, NORMAL, "Scaled", "scale mesh to 2")
        assert sorted(event["count"] for event in kube.select("Event")) == [1, 2]

    asyncio.run(story())


def test_reporter_stops_nothing_when_events_cannot_be_written() -> None:
    async def story() -> None:
        kube = FakeKube()
        router = kube.put(resource("Router", "mesh", size=1))

        def forbidden(verb: str, kind: str, name: str) -> None:
            raise KubeError(403, "forbidden")

        kube.fail = forbidden
        await EventRecorder(kube, lambda: datetime(2026, 1, 1, tzinfo=UTC)).record(router, NORMAL, "Scaled", "text")

    asyncio.run(story())
