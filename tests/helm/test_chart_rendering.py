"""What helm renders of the chart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import binaries
from tests.cluster.command import CommandError, run
from tests.cluster.install import CHART
from tests.cluster.paths import REPO
from waymesh_operator.resources.crds import findings, load_crds, with_defaults

pytestmark = [pytest.mark.helm, pytest.mark.engine_independent]

PLACES = ("--set", "analytics.input.claim=files", "--set", "analytics.output.s3=s3a://bucket/out")


def rendered(*settings: str) -> list[dict[str, Any]]:
    """What `helm template` gives, in the namespace `sys`."""
    text = run(binaries.helm(), "template", "waymesh", CHART, "--namespace", "sys", *settings)
    return [document for document in yaml.safe_load_all(text) if document]


def kinds(documents: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Kind -> `namespace/name` of each, test hooks left out."""
    found: dict[str, list[str]] = {}
    for document in documents:
        metadata = document["metadata"]
        if "helm.sh/hook" not in metadata.get("annotations", {}):
            found.setdefault(document["kind"], []).append(f"{metadata.get('namespace', '')}/{metadata['name']}")
    return found


def operator_pod(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """The operator's pod template's spec."""
    (found,) = [document for document in documents if document["kind"] == "Deployment"]
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


def test_lint_has_nothing_to_say() -> None:
    assert "0 chart(s) failed" in run(binaries.helm(), "lint", "--strict", CHART)


@pytest.mark.parametrize("path", sorted((CHART / "ci").glob("*-values.yaml")), ids=lambda path: path.stem)
def test_example_values_give_resources_that_fit_the_definitions(path: Path) -> None:
    assert "0 chart(s) failed" in run(binaries.helm(), "lint", "--strict", CHART, "--values", path)
    crds = load_crds()
    ours = [d for d in rendered("--values", str(path)) if d["apiVersion"].startswith("waymesh.io/")]
    values = yaml.safe_load(path.read_text())
    lists = sum(len(values.get(name, ())) for name in ("brokers", "autoLinks", "linkRoutes", "addresses"))
    assert len(ours) == lists + values["mesh"].get("enabled", False)
    for document in ours:
        schema = crds[document["kind"]].schema
        of_kind = document | {"metadata": {}}
        assert not list(findings(schema, with_defaults(schema, of_kind))), document["metadata"]["name"]


def test_a_mesh_outside_of_the_watched_namespaces_is_refused() -> None:
    with pytest.raises(CommandError, match="does not watch the namespace sys"):
        rendered("--set", "mesh.enabled=true", "--set", "watch.namespaces={a}")


def test_definitions_are_updated_by_a_job_with_rights_for_no_others() -> None:
    documents = rendered("--is-upgrade")
    (role,) = (d for d in documents if d["metadata"]["name"] == "waymesh-definitions" and d["kind"] == "ClusterRole")
    (names,) = (rule["resourceNames"] for rule in role["rules"] if "update" in rule["verbs"])
    assert len(names) == 8
    assert role["metadata"]["annotations"]["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
    for settings in ((), ("--is-upgrade", "--set", "crds.upgrade=false")):
        assert "waymesh-definitions" not in {document["metadata"]["name"] for document in rendered(*settings)}


def test_all_namespaces_need_a_cluster_role() -> None:
    found = kinds(rendered())
    assert found["ClusterRole"] == found["ClusterRoleBinding"] == ["/waymesh"]
    assert found["Role"] == ["sys/waymesh-home", "sys/waymesh-test"]
    assert not {"CustomResourceDefinition", "Router"} & set(found)
    assert not {"ServiceMonitor", "PodMonitor"} & set(found)


def test_chosen_namespaces_need_none() -> None:
    documents = rendered("--set", "watch.namespaces={a,b}")
    found = kinds(documents)
    assert sorted(found["Role"]) == sorted(found["RoleBinding"])
    assert sorted(found["Role"]) == ["a/waymesh", "a/waymesh-test", "b/waymesh", "sys/waymesh-home"]
    assert not {"ClusterRole", "ClusterRoleBinding"} & set(found)
    arguments = operator_pod(documents)["containers"][0]["args"]
    assert [word for word in arguments if word.startswith("--namespace")] == ["--namespace=a", "--namespace=b"]


def test_a_release_without_an_operator_is_a_mesh_alone() -> None:
    settings = ("operator.enabled=false", "mesh.enabled=true", "metrics.service=true", "metrics.rules.enabled=true")
    found = rendered("--set", ",".join(settings))
    assert sorted(kinds(found)) == ["PrometheusRule", "Router"]


def test_helm_makes_the_definitions_and_they_stay_when_the_chart_goes() -> None:
    """Helm makes what is in crds/ before all else, and never removes it."""
    assert len(kinds(rendered("--include-crds"))["CustomResourceDefinition"]) == 8


def test_operator_pod_has_no_rights_on_its_node() -> None:
    pod = operator_pod(rendered())
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["image"].startswith("waymesh-operator:")
    assert f"--router-image=waymesh-router:{container['image'].rpartition(':')[2]}" in container["args"]


def test_the_operator_is_spread_and_has_a_budget_and_a_network_policy() -> None:
    documents = rendered("--set", "replicas=2")
    alone, two = kinds(rendered()), kinds(documents)
    assert "PodDisruptionBudget" not in alone, "it would say nothing about one replica"
    assert two["PodDisruptionBudget"] == alone["NetworkPolicy"] == ["sys/waymesh-operator"]
    (budget,) = (document["spec"] for document in documents if document["kind"] == "PodDisruptionBudget")
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    assert "NetworkPolicy" not in kinds(rendered("--set", "networkPolicy.enabled=false"))
    pod = operator_pod(rendered())
    assert [item["whenUnsatisfiable"] for item in pod["topologySpreadConstraints"]] == ["ScheduleAnyway"] * 2
    assert pod["volumes"][0]["emptyDir"]["medium"] == "Memory", "it holds the keys of the meshes"


def test_monitors_on_request() -> None:
    settings = ("--set", "metrics.serviceMonitor.enabled=true", "--set", "metrics.podMonitor.enabled=true")
    found = kinds(rendered(*settings))
    assert found["ServiceMonitor"] == ["sys/waymesh"]
    assert found["PodMonitor"] == ["sys/waymesh-routers"]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("replicas=many", "replicas"),
        ("image.tagg=1", "tagg"),
        ("logging.level=loud", "level"),
        ("watch.namespaces={A}", "namespaces"),
        ("serviceAccount.create=false", "serviceAccount.name is needed"),
        ("analytics.job=true", "needs a claim or s3"),
        ("analytics.driverMemory=lots", "driverMemory"),
        ("mesh.sise=3", "sise"),
        ("mesh.size=many", "size"),
        ("addresses[0].prefix=a", "name"),
        ("addresses[0].name=a", "mesh.enabled is false"),
    ],
)
def test_bad_values_are_refused(setting: str, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        rendered("--set", setting)


def of_analytics(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What of it belongs to the Spark job."""
    labelled = [(d, d["metadata"].get("labels", {}).get("app.kubernetes.io/name")) for d in documents]
    return [document for document, name in labelled if name == "waymesh-analytics"]


def test_analytics_in_one_pod_need_no_rights() -> None:
    assert not of_analytics(rendered())
    documents = of_analytics(rendered(*PLACES, "--set", "analytics.job=true", "--set", "analytics.schedule=5 * * * *"))
    assert kinds(documents) == {"Job": ["sys/waymesh-analytics-1"], "CronJob": ["sys/waymesh-analytics"]}
    job, cron = (d["spec"] for d in sorted(documents, key=lambda d: str(d["kind"]), reverse=True))
    assert cron["jobTemplate"]["spec"] == job
    pod = job["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["containers"][0]["args"][:2] == ["/input", "--out=s3a://bucket/out"]
    assert pod["securityContext"]["runAsNonRoot"] is True


def test_analytics_with_executors_may_make_pods_and_executors_nothing() -> None:
    settings = ("--set", "analytics.job=true", "--set", "analytics.executors=3", "--set", "analytics.namespace=data")
    documents = of_analytics(rendered(*PLACES, *settings))
    found = kinds(documents)
    assert found["Role"] == found["RoleBinding"] == ["data/waymesh-analytics"]
    (text,) = (document["data"]["executor.yaml"] for document in documents if document["kind"] == "ConfigMap")
    executor = yaml.safe_load(text)["spec"]
    assert executor["automountServiceAccountToken"] is False
    assert executor["serviceAccountName"] == "waymesh-analytics-executor"
    (job,) = (document["spec"]["template"]["spec"] for document in documents if document["kind"] == "Job")
    assert {volume["name"] for volume in job["volumes"]} - {"executor"} == {v["name"] for v in executor["volumes"]}
    assert "--conf=spark.driver.bindAddress=$(POD_IP)" in job["containers"][0]["args"]
    assert "--conf=spark.executor.instances=3" in job["containers"][0]["args"]


def test_executors_as_they_are_needed() -> None:
    settings: tuple[str, ...] = ("--set", "analytics.job=true", "--set", "analytics.dynamicAllocation=true")
    with pytest.raises(CommandError, match="the maximum number of executors"):
        rendered(*PLACES, *settings)
    documents = of_analytics(rendered(*PLACES, *settings, "--set", "analytics.executors=9"))
    (job,) = (document["spec"]["template"]["spec"] for document in documents if document["kind"] == "Job")
    name = "--conf=spark.dynamicAllocation."
    found = {word.removeprefix(name) for word in job["containers"][0]["args"] if word.startswith(name)}
    assert found == {"enabled=true", "shuffleTracking.enabled=true", "minExecutors=0", "maxExecutors=9"}
    assert not [word for word in job["containers"][0]["args"] if "executor.instances" in word]
    settings += ("--set", "analytics.sparkApplication=true", "--set", "analytics.sparkServiceAccount=spark")
    (application,) = of_analytics(rendered(*PLACES, *settings, "--set", "analytics.executors=9"))
    assert application["spec"]["dynamicAllocation"] == {"enabled": True, "minExecutors": 0, "maxExecutors": 9}
    assert "instances" not in application["spec"]["executor"]


def test_analytics_as_applications_of_spark_s_operator() -> None:
    settings = ("--set", "analytics.sparkApplication=true", "--set", "analytics.sparkServiceAccount=spark")
    found = kinds(of_analytics(rendered(*PLACES, *settings, "--set", "analytics.job=true")))
    assert found == {"SparkApplication": ["sys/waymesh-analytics"]}
    found = kinds(of_analytics(rendered(*PLACES, *settings, "--set", "analytics.schedule=@daily")))
    assert found == {"ScheduledSparkApplication": ["sys/waymesh-analytics"]}


def test_monitoring_on_request() -> None:
    documents = rendered("--set", "metrics.rules.enabled=true", "--set", "metrics.dashboards.enabled=true")
    (rules,) = (document["spec"] for document in documents if document["kind"] == "PrometheusRule")
    assert rules == yaml.safe_load((CHART / "files/rules.yaml").read_text())
    (boards,) = (d["data"] for d in documents if d["metadata"]["name"] == "waymesh-dashboards")
    files = {f"waymesh-{path.name}": path.read_text() for path in (CHART / "files/dashboards").iterdir()}
    assert boards == files


def test_the_schedule_of_the_example_is_the_chart_s() -> None:
    values = REPO / "examples/quickstart/analytics-values.yaml"
    words = ["--namespace", "quickstart", "--values", str(values), "--show-only", "templates/analytics.yaml"]
    found = run(binaries.helm(), "template", "quickstart", CHART, *words)
    assert (REPO / "examples/quickstart/analytics.yaml").read_text() == found, "run `make quickstart`"


def images_of(documents: list[dict[str, Any]]) -> set[str]:
    """The images of the operator, of the routers and of the analytics job."""
    container = operator_pod(documents)["containers"][0]
    option = "--router-image="
    (router,) = (word.removeprefix(option) for word in container["args"] if word.startswith(option))
    (job,) = (document for document in documents if document["kind"] == "CronJob")
    analytics = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["image"]
    return {container["image"], router, analytics}


def test_images_of_a_registry_and_by_digest() -> None:
    analytics = ("--set", "analytics.schedule=10 * * * *", *PLACES)
    names = ["waymesh-analytics", "waymesh-operator", "waymesh-router"]
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert images_of(rendered(*analytics)) == {f"{name}:{version}" for name in names}
    for registry in ("registry.example:5000/team", "registry.example:5000/team/"):
        found = images_of(rendered(*analytics, "--set", f"imageRegistry={registry}"))
        assert found == {f"registry.example:5000/team/{name}:{version}" for name in names}
    digest = "sha256:" + "0a" * 32
    values = [f"{image}.digest={digest}" for image in ("image", "routerImage", "analytics.image")]
    settings = [word for value in values for word in ("--set", value)]
    assert images_of(rendered(*analytics, *settings)) == {f"{name}@{digest}" for name in names}
    with pytest.raises(CommandError, match="digest"):
        rendered("--set", "image.digest=latest")
