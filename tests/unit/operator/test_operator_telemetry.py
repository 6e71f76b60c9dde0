"""Destination of exported files: containers in the pods, settings of routers, and missing references."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from waymesh_operator.places.kubernetes.context import ClusterContext, OperatorSettings
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.router import S3, Ref, Router, Telemetry
from waymesh_operator.tls.rollover import TlsRequest, next_tls

pytestmark = pytest.mark.engine_independent

ROUTER = Router(Ref("ns", "mesh"), uid="u-1")
TLS = next_tls(TlsRequest("mesh", "ns"), {}, {}, datetime(2026, 1, 1, tzinfo=UTC))
CONTEXT = ClusterContext(OperatorSettings("registry/router:1"), tls=TLS)


def export(telemetry: Telemetry, **there: Any) -> tuple[Any, Any, dict[str, Any]]:
    """The volume of exported files, the containers beside the router's, and what routers are told."""
    desired = desired_cluster(Resources(replace(ROUTER, telemetry=telemetry)), replace(CONTEXT, **there))
    *_, seed, stateful_set = desired.objects
    pod = stateful_set["spec"]["template"]["spec"]
    rows = json.loads(gzip.decompress(base64.b64decode(seed["binaryData"]["shared.json.gz"])))
    told = [attributes for kind, attributes in rows if kind == "telemetry"]
    (volume,) = (item for item in pod["volumes"] if item["name"] == "telemetry")
    return volume, pod.get("initContainers", []), told[0] if told else {}


def test_the_export_is_turned_on_and_off_without_a_restart() -> None:
    on, off = export(Telemetry("EmptyDir", sample_one_in=10)), export(Telemetry())
    assert on[:2] == off[:2] == ({"name": "telemetry", "emptyDir": {}}, [])
    assert "path" not in off[2]
    told = (on[2]["path"], on[2]["mesh"], on[2]["sampleOneIn"])
    assert told == ("/var/lib/waymesh/telemetry", "ns/mesh", 10)


def test_no_samples_a_second_are_no_samples_at_all() -> None:
    told = export(Telemetry("EmptyDir", sample_one_in=10, samples_per_second=0))[2]
    assert (told["sampleOneIn"], told["samplesPerSecond"]) == (0, 1)


def test_the_export_goes_to_a_claim_that_is_there() -> None:
    volume, beside, told = export(Telemetry("Claim", "files"), claims={"files": ("ReadWriteMany",)})
    assert volume == {"name": "telemetry", "persistentVolumeClaim": {"claimName": "files"}}
    assert (beside, told["path"]) == ([], "/var/lib/waymesh/telemetry")


def test_the_export_goes_to_s3_by_a_container_that_outlives_the_router() -> None:
    s3 = S3("bucket", "/a/b/", "https://store:9000", secret="keys")
    keys = {"AWS_ACCESS_KEY_ID": b"i", "AWS_SECRET_ACCESS_KEY": b"s"}
    volume, (beside,), _ = export(Telemetry("S3", s3=s3), secrets={"keys": keys})
    assert volume == {"name": "telemetry", "emptyDir": {}}
    assert beside["command"] == [
        "waymesh-upload", "--spool", "/var/lib/waymesh/telemetry", "--target", "s3://bucket/a/b",
        "--endpoint", "https://store:9000",
    ]  # fmt: skip
    assert (beside["restartPolicy"], beside["image"]) == ("Always", "registry/router:1")
    assert beside["securityContext"]["readOnlyRootFilesystem"] is True
    assert [item["name"] for item in beside["env"]] == list(keys)


def test_an_export_that_lacks_something_stays_as_the_pods_have_it() -> None:
    claim = {"name": "telemetry", "persistentVolumeClaim": {"claimName": "former"}}
    there = {"claims": {"files": None}, "pod_now": {"volumes": [claim]}}
    assert export(Telemetry("Claim", "files"), **there) == (claim, [], {})
    assert export(Telemetry("Claim", "files"), claims={"files": None})[0] == {"name": "telemetry", "emptyDir": {}}
