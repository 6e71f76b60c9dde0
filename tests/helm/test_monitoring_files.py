"""Alerts and dashboards of the chart use metrics that routers and the operator export."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.architecture.tree import REPO
from tests.kit.built import debian_package
from waymesh_operator.places.kubernetes.monitoring import Metrics
from waymesh_schema.metrics import METRICS

FILES = REPO / "helm" / "waymesh" / "files"
DASHBOARDS = sorted((FILES / "dashboards").glob("*.json"))
HERE = Path(__file__).parent
OF_PROMETHEUS = {"process_resident_memory_bytes"}
"""What prometheus_client tells of every process on Linux."""
WORD = re.compile(r"\b(?:waymesh|qdr|process)_[a-z0-9_]+\b")

pytestmark = pytest.mark.engine_independent


def rules() -> list[dict[str, Any]]:
    """All alerts."""
    groups = yaml.safe_load((FILES / "rules.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """All queries, each with where it stands."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for path in DASHBOARDS:
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield f"{path.stem}: {panel['title']}", target["expr"]
        for variable in board["templating"]["list"]:
            yield f"{path.stem}: {variable['name']}", str(variable.get("definition", ""))


def of_operator() -> set[str]:
    """The names of all series of the operator."""
    found: set[str] = set()
    for family in text_string_to_metric_families(generate_latest(Metrics().registry).decode()):
        parts = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("_total",)}.get(family.type, ("",))
        found |= {family.name + part for part in parts}
    return found


def test_every_query_asks_for_what_is_told() -> None:
    told = {name for metric in METRICS.values() for name in metric.series} | of_operator() | OF_PROMETHEUS
    unknown = [(place, word) for place, text in expressions() for word in WORD.findall(text) if word not in told]
    assert not unknown


def test_every_alert_says_what_it_is_about() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical"), rule["alert"]
        assert set(rule["annotations"]) == {"summary", "description"}, rule["alert"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboards_are_whole(path: Path) -> None:
    board = json.loads(path.read_text())
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({panel["title"] for panel in panels}) == len(panels)
    variables = {variable["name"] for variable in board["templating"]["list"]}
    asked = set(re.findall(r"\$\{?([a-z]+)\}?", json.dumps(panels)))
    assert asked <= variables


def test_rules_are_prometheus_rules() -> None:
    """By Prometheus' own checker."""
    promtool = debian_package(HERE / "promtool") / "usr/bin/promtool"
    argv = [str(promtool), "check", "rules", str(FILES / "rules.yaml")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules())} rules found" in done.stdout
