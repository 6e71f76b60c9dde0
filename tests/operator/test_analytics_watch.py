"""What is told of the jobs of analytics: metrics about the last success and the findings, and Events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.operator.kit import NAMESPACE, Lab, run
from waymesh_operator.places.kubernetes.worker.analytics import AnalyticsWatch, latest_runs, owner
from waymesh_schema.findings import FINDING_KINDS, FoundKind, findings_message

pytestmark = pytest.mark.engine_independent

MONDAY, TUESDAY = "2026-01-05T01:00:00Z", "2026-01-06T01:00:00Z"


LABELS = {"app.kubernetes.io/name": "waymesh-analytics", "app.kubernetes.io/instance": "nightly"}


def job(kind: str, name: str, **status: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": LABELS, "uid": f"uid-{name}"}
    return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "status": status}


def owned(body: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    """The same, controlled by an object of batch/v1."""
    above = {"apiVersion": "batch/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
    return body | {"metadata": body["metadata"] | {"ownerReferences": [above]}}


def pod(name: str, finished: str, message: str, of: str = "one") -> dict[str, Any]:
    """A pod of a run that has ended."""
    ended = {"exitCode": 0, "finishedAt": finished, "message": message}
    status = {"phase": "Succeeded", "containerStatuses": [{"name": "analytics", "state": {"terminated": ended}}]}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": LABELS, "uid": f"uid-{name}"}
    return owned({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}, "Job", of)


def message(**counts: int) -> str:
    return findings_message([FoundKind(FINDING_KINDS[kind], count, f"{kind} here") for kind, count in counts.items()])


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


def test_findings_become_metrics_and_events_once() -> None:
    async def story(lab: Lab) -> None:
        def told(kind: str) -> float | None:
            severity = FINDING_KINDS[kind].severity
            labels = {"namespace": NAMESPACE, "release": "nightly", "kind": kind, "severity": severity}
            return lab.world.metrics.registry.get_sample_value("waymesh_analytics_findings", labels)

        def events() -> set[tuple[str, str, str, str]]:
            return {
                (event["involvedObject"]["kind"], event["type"], event["reason"], event["message"])
                for event in lab.kube.select("Event")
            }

        watch = AnalyticsWatch(lab.world)
        lab.kube.put(job("CronJob", "nightly"))
        lab.kube.put(owned(job("Job", "one"), "CronJob", "nightly"))
        await watch.once()
        assert told("ConsumersStuck") is None, "no run has ended"
        lab.kube.put(pod("one-a", MONDAY, message(ConsumersStuck=3, PathsLonger=1)))
        await watch.once()
        assert (told("ConsumersStuck"), told("PathsLonger"), told("RecordsMissing")) == (3, 1, 0)
        stuck, longer = (FINDING_KINDS[kind].action for kind in ("ConsumersStuck", "PathsLonger"))
        first = {
            ("CronJob", "Warning", "ConsumersStuck", f"ConsumersStuck here. {stuck}"),
            ("CronJob", "Normal", "PathsLonger", f"PathsLonger here. {longer}"),
        }
        assert events() == first
        lab.kube.put(owned(job("Job", "two"), "CronJob", "nightly"))
        lab.kube.put(pod("two-a", TUESDAY, message(), of="two"))
        await watch.once()
        assert (told("ConsumersStuck"), told("PathsLonger")) == (0, 0), "an alert ends"
        assert events() == first
        for kind, name in (("CronJob", "nightly"), ("Job", "one"), ("Job", "two"), ("Pod", "one-a"), ("Pod", "two-a")):
            lab.kube.remove(kind, NAMESPACE, name)
        await watch.once()
        assert told("ConsumersStuck") is None, "the release is gone"

    run(story)


def test_the_time_of_the_last_success_goes_with_its_release() -> None:
    async def story(lab: Lab) -> None:
        def last() -> float | None:
            labels = {"namespace": NAMESPACE, "release": "nightly"}
            name = "waymesh_analytics_last_success_timestamp_seconds"
            return lab.world.metrics.registry.get_sample_value(name, labels)

        watch = AnalyticsWatch(lab.world)
        lab.kube.put({**job("CronJob", "nightly"), "status": {"lastSuccessfulTime": MONDAY}})
        await watch.once()
        assert last() is not None
        lab.kube.remove("CronJob", NAMESPACE, "nightly")
        await watch.once()
        assert last() is None

    run(story)


def test_the_last_run_counts_and_other_messages_do_not() -> None:
    pods = [
        pod("new", TUESDAY, message(ConsumersStuck=1)),
        pod("old", MONDAY, message(ConsumersStuck=9)),
        pod("killed", "2026-01-07T01:00:00Z", "Error: out of memory"),
        {"metadata": {"name": "report", "namespace": NAMESPACE, "labels": LABELS}},
    ]
    (found,) = latest_runs(pods).values()
    assert found.pod["metadata"]["name"] == "new"
    assert [each.count for each in found.found] == [1]


def test_events_are_about_what_stays_longest() -> None:
    run_pod = pod("one-a", MONDAY, "")
    assert owner(run_pod, [owned(job("Job", "one"), "CronJob", "nightly")])["metadata"]["name"] == "nightly"
    assert owner(run_pod, [])["kind"] == "Job"
    alone = {"kind": "Pod", "metadata": {"name": "driver", "namespace": NAMESPACE}}
    assert owner(alone, []) is alone
