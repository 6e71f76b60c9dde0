"""Random values, and values that fit a CRD's structure: problems are reported, without exceptions."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_operator.errors import ManifestError
from waymesh_operator.resources.crds import findings, load_crds, rule_findings, with_defaults
from waymesh_operator.resources.manifests import parse_text
from waymesh_operator.resources.validation import check

pytestmark = pytest.mark.engine_independent

CRDS = load_crds()
KINDS = sorted(CRDS)
WORDS = st.sampled_from(
    ["spec", "size", "listeners", "name", "port", "tls", "routerRef", "prefix", "auth", "items", "x"]
)
TEXTS = ("a", "c", "b1", "bucket", "http://a", "https://a", "60/10")
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


def fitting(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values that fit the structural schema."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "x-kubernetes-int-or-string" in schema:
        return st.sampled_from([0, 5, "400Mi"])
    kind = schema.get("type")
    if kind == "object" and "properties" in schema:
        required = set(schema.get("required", ()))
        fields = {name: fitting(child) for name, child in schema["properties"].items()}
        return st.fixed_dictionaries(
            {name: field for name, field in fields.items() if name in required},
            optional={name: field for name, field in fields.items() if name not in required},
        )
    if kind == "array":
        least, most = schema.get("minItems", 0), min(schema.get("maxItems", 3), 3)
        keys, below = schema.get("x-kubernetes-list-map-keys"), schema["items"].get("properties", {})
        unique = (lambda item: tuple(str(item.get(key, below[key].get("default"))) for key in keys)) if keys else None
        return st.lists(fitting(schema["items"]), min_size=least, max_size=most, unique_by=unique or json.dumps)
    if kind == "integer":
        return st.integers(schema.get("minimum", -5), schema.get("maximum", 10))
    if kind == "boolean":
        return st.booleans()
    if kind == "string":
        return st.sampled_from([text for text in TEXTS if not list(findings(schema, text))])
    return st.just({})


@given(st.sampled_from(KINDS), ANYTHING, ANYTHING, ANYTHING)
def test_a_manifest_of_anything_is_accepted_or_refused(kind: str, spec: Any, metadata: Any, more: Any) -> None:
    manifest = {"apiVersion": CRDS[kind].api_version, "kind": kind, "metadata": metadata, "spec": spec, "status": more}
    documents, problems = parse_text(json.dumps([manifest])[1:-1], "m")
    assert problems == []
    with contextlib.suppress(ManifestError):
        check(documents, CRDS)


@given(st.text(max_size=40) | st.text("{}[]:-&*!|>'\"#% \n\tab", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    documents, problems = parse_text(text, "m")
    try:
        check(documents, CRDS)
    except ManifestError as error:
        problems.extend(error.problems)
    assert all(problem.message for problem in problems)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_rules_can_be_evaluated_for_whatever_fits_the_structure(kind: str, data: st.DataObject) -> None:
    schema = CRDS[kind].schema["properties"]["spec"]
    spec, old = (with_defaults(schema, data.draw(fitting(schema))) for _ in range(2))
    assert list(findings(schema, spec)) == []
    for _, message in rule_findings(schema, spec, old):
        assert message
