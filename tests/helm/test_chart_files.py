"""The chart's files agree with each other and with the CRDs."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import jsonschema
import pytest
import yaml

from tests.architecture.tree import REPO, pyproject
from waymesh_operator.cluster.plan import REMOVABLE
from waymesh_operator.kube.api import CERT_MANAGER, EVENT, OWNED, RESOURCES

pytestmark = pytest.mark.engine_independent

CHART = REPO / "helm" / "waymesh"


def load(name: str) -> Any:
    """A YAML or JSON file of the chart."""
    return yaml.safe_load((CHART / name).read_text())


def test_definitions_are_those_of_the_project() -> None:
    own = {path.name: path.read_text() for path in (REPO / "crds").glob("*.yaml")}
    chart = {path.name: path.read_text() for path in (CHART / "files/crds").glob("*.yaml")}
    assert chart == own, "run `make chart`"


def test_versions_are_the_projects() -> None:
    chart = load("Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (pyproject()["project"]["version"],) * 2


def test_values_fit_their_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(load("values.yaml"), schema)


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
    written = [*(kind for kind in OWNED if kind.kind != "Pod"), *CERT_MANAGER]
    deleted = {(kind.group, kind.plural) for kind in written if kind.kind in REMOVABLE}
    assert len(deleted) == len(REMOVABLE)
    assert {resource for resource, verbs in rights.items() if "delete" in verbs} == deleted
    # Server-side apply asks for both.
    applied = {(kind.group, kind.plural) for kind in (*written, EVENT)}
    assert {resource for resource, verbs in rights.items() if "create" in verbs} == applied
    statuses = {(kind.group, f"{kind.plural}/status") for kind in RESOURCES}
    assert {resource for resource, verbs in rights.items() if "patch" in verbs} == applied | statuses
    watched = {(kind.group, kind.plural) for kind in (*RESOURCES, *OWNED)}
    assert {resource for resource, verbs in rights.items() if "watch" in verbs} == watched


def test_nothing_in_the_operator_deletes_but_the_planner_s_steps() -> None:
    """So that the list of what the planner removes is the list of what the operator has to be allowed to delete."""
    calls = [
        str(path.relative_to(REPO))
        for path in sorted((REPO / "operator").rglob("*.py"))
        if re.search(r"\bkube\.delete\(|delete_namespaced_|\.delete_collection", path.read_text())
    ]
    assert calls == ["operator/waymesh_operator/cluster/apply.py"]


def test_the_report_is_served_to_nobody_else_in_the_cluster() -> None:
    text = (CHART / "templates/analytics.yaml").read_text()
    _, _, served = text.partition("$a.report.enabled }}\n{{- if not")
    assert "waymesh_analytics.report.server" in served
    assert not re.search(r"kind: (Service|Ingress)$|containerPort|http\.server", text, re.MULTILINE)
    assert re.search(r"mountPath: /output\n +readOnly: true", served)


def test_program_of_the_helm_test_is_python() -> None:
    ast.parse((CHART / "files/send_through_mesh.py").read_text())
