"""The chart's files agree with each other and with the CRDs."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.architecture.tree import REPO, pyproject
from tools.chart_schema import VALUES, json_schema, schema_text
from waymesh_operator.kube import CERT_MANAGER, EVENT, OWNED, RESOURCES, ROUTES
from waymesh_operator.planning.plan import REMOVABLE
from waymesh_operator.resources.crds import findings, load_crds, with_defaults

pytestmark = pytest.mark.engine_independent

CHART = REPO / "helm" / "waymesh"
VALUES_FILES = sorted((CHART / "ci").glob("*-values.yaml"))
LISTS = {"brokers": "Broker", "autoLinks": "AutoLink", "linkRoutes": "LinkRoute", "addresses": "Address"}


def load(name: str) -> Any:
    """A YAML or JSON file of the chart."""
    return yaml.safe_load((CHART / name).read_text())


def test_definitions_are_those_of_the_project() -> None:
    own = {path.name: path.read_text() for path in (REPO / "crds").glob("*.yaml")}
    chart = {path.name: path.read_text() for path in (CHART / "crds").glob("*.yaml")}
    assert chart == own, "run `make chart`"


def test_versions_are_the_projects() -> None:
    chart = load("Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (pyproject()["project"]["version"],) * 2


def test_values_fit_their_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(load("values.yaml"), schema)


def test_schema_of_values_has_those_of_the_definitions() -> None:
    assert (CHART / "values.schema.json").read_text() == schema_text(), "run `make chart`"


def test_names_from_outside_are_quoted() -> None:
    """Names such as 12, 1e3 or yes are good ones for Kubernetes, but no strings for YAML."""
    outside = re.compile(r".*(?:namespace|instance|claimName): .*\{\{|.* name: .*\{\{.*[vV]alues\.")
    for path in (*(CHART / "templates").rglob("*.yaml"), *(CHART / "templates").glob("*.tpl")):
        lines = [line for line in path.read_text().splitlines() if outside.match(line)]
        assert [line for line in lines if "| quote }}" not in line] == [], path.name


def test_a_word_of_a_definition_without_counterpart_is_an_error() -> None:
    with pytest.raises(ValueError, match="nullable"):
        json_schema({"type": "string", "nullable": True})


@pytest.mark.parametrize("path", VALUES_FILES, ids=lambda path: path.stem)
def test_example_values_fit_the_schema_and_their_resources_the_definitions(path: Path) -> None:
    given = yaml.safe_load(path.read_text())
    jsonschema.validate(given, load("values.schema.json"))
    mesh = load("values.yaml")["mesh"] | given.get("mesh", {})
    resources = [("Router", mesh)] if mesh["enabled"] else []
    resources += [(kind, entry) for name, kind in LISTS.items() for entry in given.get(name, ())]
    assert resources
    for kind, values in resources:
        spec = {k: v for k, v in values.items() if k not in ("enabled", "name", "namespace", "labels", "annotations")}
        if kind != "Router":
            spec.setdefault("routerRef", {"name": mesh["name"]})
        schema = load_crds()[kind].schema
        assert not list(findings(schema, with_defaults(schema, {"spec": spec}))), values["name"]


def test_example_values_show_each_kind() -> None:
    shown = {name for path in VALUES_FILES for name in yaml.safe_load(path.read_text())}
    assert {"mesh", *LISTS} <= shown
    assert set(VALUES) == {"Router", *LISTS.values()}


@pytest.mark.parametrize(
    "values",
    [
        {"mesh": {"sise": 3}},
        {"mesh": {"listeners": [{"name": "amqp", "prot": 5672}]}},
        {"addresses": [{"prefix": "orders"}]},
        {"brokers": [{"name": "orders", "endpoint": "broker-0"}]},
        {"autoLinks": [{"name": "in", "address": "a", "direction": "sideways"}]},
    ],
)
def test_values_that_no_resource_has_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values, load("values.schema.json"))


def keys(value: Any, properties: Any, path: str = "") -> list[str]:
    """Every value that the schema describes and values.yaml lacks."""
    missing = []
    for name, entry in properties.items():
        if name == "global":
            continue
        if name not in value:
            missing.append(path + name)
        elif "properties" in entry:
            missing += keys(value[name], entry["properties"], f"{path}{name}.")
    return missing


def test_values_show_all_that_the_schema_has() -> None:
    assert not keys(load("values.yaml"), load("values.schema.json")["properties"])


def test_templates_use_only_values_that_exist() -> None:
    values = load("values.yaml")
    unknown = []
    for template in CHART.glob("templates/**/*.*"):
        for path in re.findall(r"\.Values\.([\w.]+)", template.read_text()):
            level = values
            for part in path.split("."):
                if not isinstance(level, dict) or part not in level:
                    unknown.append(f"{template.name}: {path}")
                    break
                level = level[part]
    assert not unknown


def test_rights_are_few() -> None:
    text = (CHART / "templates/_helpers.tpl").read_text()
    assert "'*'" not in text
    assert '"*"' not in text
    for word in ("pods/exec", "roles", "rolebindings", "impersonate", "escalate", "bind", "customresourcedefinitions"):
        assert not re.search(rf"[\[ ,]{word}[\], ]", re.sub(r"\{\{/\*.*?\*/\}\}", "", text, flags=re.DOTALL)), word


def operator_rights(template: str) -> dict[tuple[str, str], set[str]]:
    """What a list of rules in the chart's helpers allows: (API group, resource) → verbs."""
    text = (CHART / "templates/_helpers.tpl").read_text()
    _, _, rest = text.partition(f'define "{template}" -}}}}\n')
    rules = re.split(r"^\{\{- end \}\}\n(?=\n|\Z)", rest, maxsplit=1, flags=re.MULTILINE)[0]
    found: dict[tuple[str, str], set[str]] = {}
    for rule in yaml.safe_load(re.sub(r"\{\{.*?\}\}", "", rules)):
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault((group, resource), set()).update(rule["verbs"])
    return found


def test_the_operator_may_delete_and_write_what_it_does_delete_and_write() -> None:
    rights = operator_rights("waymesh.rules")
    written = [*(kind for kind in OWNED if kind.kind != "Pod"), *CERT_MANAGER, *ROUTES]
    deleted = {(kind.group, kind.plural) for kind in written if kind.kind in REMOVABLE}
    assert len(deleted) == len(REMOVABLE)
    assert {resource for resource, verbs in rights.items() if "delete" in verbs} == deleted
    # Server-side apply asks for both.
    applied = {(kind.group, kind.plural) for kind in (*written, EVENT)}
    # OpenShift asks for it where a Route names its host.
    host = {("route.openshift.io", "routes/custom-host")}
    assert {resource for resource, verbs in rights.items() if "create" in verbs} == applied | host
    statuses = {(kind.group, f"{kind.plural}/status") for kind in RESOURCES}
    annotated = {("", "pods")}
    assert {resource for resource, verbs in rights.items() if "patch" in verbs} == applied | statuses | annotated
    watched = {(kind.group, kind.plural) for kind in (*RESOURCES, *OWNED)}
    assert {resource for resource, verbs in rights.items() if "watch" in verbs} == watched


def test_nothing_in_the_operator_deletes_but_the_planner_s_steps() -> None:
    """So that the list of what the planner removes is the list of what the operator has to be allowed to delete."""
    calls = [
        str(path.relative_to(REPO))
        for path in sorted((REPO / "operator").rglob("*.py"))
        if re.search(r"\bkube\.delete\(|delete_namespaced_|\.delete_collection", path.read_text())
    ]
    assert calls == ["operator/waymesh_operator/places/kubernetes/apply.py"]


def test_the_report_is_served_to_nobody_else_in_the_cluster() -> None:
    text = (CHART / "templates/analytics.yaml").read_text()
    _, _, served = text.partition("$a.report.enabled }}\n{{- if not")
    assert "waymesh_analytics.report.server" in served
    assert not re.search(r"kind: (Service|Ingress)$|containerPort|http\.server", text, re.MULTILINE)
    assert re.search(r"mountPath: /output\n +readOnly: true", served)


@pytest.mark.parametrize("path", sorted(CHART.glob("files/*.py")), ids=lambda path: path.stem)
def test_programs_of_the_chart_are_python(path: Path) -> None:
    ast.parse(path.read_text())


def test_the_operator_s_service_has_no_name_that_a_router_takes() -> None:
    """A Router called as the release has the Services NAME, NAME-mesh and NAME-metrics."""
    text = (CHART / "templates/metrics.yaml").read_text()
    assert "kind: Service\nmetadata:\n  name: {{ include \"waymesh.name\" . }}-operator\n" in text
