"""`waymesh plan` on a cluster: a malformed manifest gives a message with its place and exit code 1, no traceback."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_operator.cli import cluster_plan, main
from waymesh_operator.errors import ManifestError
from waymesh_operator.resources.crds import load_crds
from waymesh_operator.resources.manifests import parse_text
from waymesh_operator.resources.validation import check_alone

pytestmark = pytest.mark.engine_independent

CRDS = load_crds()
OURS = "apiVersion: waymesh.io/v1alpha1\n"
ADDRESS = OURS + "kind: Address\n"
ROUTER = OURS + "kind: Router\n"
SPEC = "spec: {routerRef: {name: mesh}, prefix: a}\n"

MALFORMED = {
    "no metadata": (ADDRESS + SPEC, "metadata.name"),
    "metadata null": (ADDRESS + "metadata:\n" + SPEC, "metadata.name"),
    "metadata a list": (ADDRESS + "metadata: [a]\n" + SPEC, "metadata: must be a map"),
    "metadata text": (ADDRESS + "metadata: a\n" + SPEC, "metadata: must be a map"),
    "no name": (ADDRESS + "metadata: {labels: {a: b}}\n" + SPEC, "metadata.name: is required"),
    "name null": (ADDRESS + "metadata: {name: }\n" + SPEC, "metadata.name: is required"),
    "name a number": (ADDRESS + "metadata: {name: 5}\n" + SPEC, "metadata.name: must be text"),
    "name a map": (ADDRESS + "metadata: {name: {}}\n" + SPEC, "metadata.name: must be text"),
    "bad name": (ADDRESS + "metadata: {name: A_B}\n" + SPEC, "metadata.name: must consist of"),
    "namespace a number": (ADDRESS + "metadata: {name: a, namespace: 1}\n" + SPEC, "metadata.namespace"),
    "no kind": (OURS + "metadata: {name: a}\n" + SPEC, "kind: is required"),
    "kind a map": (OURS + "kind: {}\nmetadata: {name: a}\n" + SPEC, "kind: is required"),
    "unknown kind": (OURS + "kind: Adress\nmetadata: {name: a}\n" + SPEC, "did you mean Address"),
    "no apiVersion": ("kind: Address\nmetadata: {name: a}\n" + SPEC, "apiVersion: is required"),
    "other version": ("apiVersion: waymesh.io/v9\nkind: Address\nmetadata: {name: a}\n" + SPEC, "apiVersion: must be"),
    "no spec": (ADDRESS + "metadata: {name: a}\n", "spec"),
    "spec a list": (ADDRESS + "metadata: {name: a}\nspec: []\n", "spec: must be a map"),
    "unknown field": (ROUTER + "metadata: {name: a}\nspec: {sise: 3}\n", "sise"),
    "a list at top level": ("- a\n- b\n", "is not a manifest"),
    "text at top level": ("hello\n", "is not a manifest"),
    "a List with a map of items": ("apiVersion: v1\nkind: List\nitems: {a: b}\n", "List"),
    "an item without metadata": (
        "apiVersion: v1\nkind: List\nitems: [{apiVersion: waymesh.io/v1alpha1, kind: Router, spec: {}}]\n",
        "metadata.name",
    ),
    "an item that is text": ("apiVersion: v1\nkind: List\nitems: [hello]\n", "is not a manifest"),
    "twice the same": (2 * ("---\n" + ROUTER + "metadata: {name: a}\nspec: {}\n"), "duplicate"),
    "empty": ("", "holds no manifest"),
    "no YAML": ("a: [", "not valid YAML"),
}


@pytest.mark.parametrize(("text", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_manifest_is_named_with_its_place_and_exit_code_1(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(text)

    async def no_cluster(context: str | None) -> Any:
        return SimpleNamespace(namespace="ns", configuration=None)

    monkeypatch.setattr(cluster_plan, "find_cluster", no_cluster)
    monkeypatch.setattr("sys.argv", ["waymesh", "plan", "-n", "ns", "-f", str(file)])
    with pytest.raises(SystemExit) as caught:
        main.main()
    told = capsys.readouterr().err
    assert caught.value.code == 1
    assert message in told
    assert str(file) in told
    assert "Traceback" not in told


def test_manifests_of_other_groups_are_left_out_and_ours_get_namespace_and_defaults() -> None:
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n---\n"
        "apiVersion: eventing.knative.dev/v1\nkind: Broker\nmetadata: {}\n---\n"
        + ROUTER
        + "metadata: {name: mesh, namespace: }\nspec: {}\n"
    )
    documents, problems = parse_text(text, "m.yaml")
    (router,) = check_alone(documents, CRDS, "mine")
    assert problems == []
    assert router["metadata"] == {"name": "mesh", "namespace": "mine"}
    assert router["spec"]["size"] == 1


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_PART = st.sampled_from(["waymesh.io/v1alpha1", "v1", "Router", "Address", "Secret", "List", "mesh"]) | _JSON
_MANIFEST = st.fixed_dictionaries(
    {},
    optional={
        "apiVersion": _PART,
        "kind": _PART,
        "metadata": st.fixed_dictionaries({}, optional={"name": _PART, "namespace": _PART}) | _JSON,
        "spec": _JSON,
        "items": _JSON,
    },
)


@given(st.lists(_MANIFEST | _JSON, max_size=3))
def test_any_shape_is_taken_or_refused_in_words(shapes: list[Any]) -> None:
    documents, problems = parse_text("\n---\n".join(json.dumps(shape) for shape in shapes), "m.json")
    with contextlib.suppress(ManifestError):
        found = check_alone(documents, CRDS, "ns")
        assert problems or all(manifest["metadata"]["namespace"] for manifest in found)
