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


def test_program_of_the_helm_test_is_python() -> None:
    ast.parse((CHART / "files/send_through_mesh.py").read_text())
