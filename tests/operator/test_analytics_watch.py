"""Metrics about the last successful jobs of analytics."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.operator.kit import NAMESPACE, Lab, run
from waymesh_operator.cluster.worker.audits import AnalyticsWatch

pytestmark = pytest.mark.engine_independent

MONDAY, TUESDAY = "2026-01-05T01:00:00Z", "2026-01-06T01:00:00Z"


def job(kind: str, name: str, **status: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "waymesh-analytics", "app.kubernetes.io/instance": "nightly"}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "status": status}


def test_the_last_success_is_that_of_any_job_and_never_goes_back() -> None:
    async def story(lab: Lab) -> None:
        def told() -> float | None:
            labels = {"namespace": NAMESPACE, "release": "nightly"}
            name = "waymesh_analytics_last_success_timestamp_seconds"
            return lab.world.metrics.registry.get_sample_value(name, labels)

        watch = AnalyticsWatch(lab.world)
        lab.kube.put(job("Job", "one"))
        await watch.once()
        assert told() is None
        lab.kube.put(job("Job", "one", completionTime=TUESDAY))
        lab.kube.put(job("CronJob", "nightly", lastSuccessfulTime=MONDAY))
        await watch.once()
        assert told() == datetime(2026, 1, 6, 1, tzinfo=UTC).timestamp()

    run(story)
