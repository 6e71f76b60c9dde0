"""`waymesh explain`: kinds and fields as the CRDs describe them."""

from __future__ import annotations

import pytest

from waymesh_operator.cli.explain import allowed, run_explain, type_of
from waymesh_operator.errors import WaymeshError
from waymesh_operator.resources.crds import load_crds

pytestmark = pytest.mark.engine_independent


def explained(capsys: pytest.CaptureFixture[str], path: str, recursive: bool = False) -> str:
    assert run_explain(path, recursive, no_color=True) == 0
    return capsys.readouterr().out


def test_all_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, "")
    assert all(kind in text for kind in load_crds())


@pytest.mark.parametrize("name", ["router", "Router", "routers"])
def test_a_kind_by_any_of_its_names(capsys: pytest.CaptureFixture[str], name: str) -> None:
    text = explained(capsys, name)
    assert "Router (waymesh.io/v1alpha1)" in text
    assert "spec " in text


def test_a_field_with_its_type_default_and_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, "router.spec.size")
    assert "spec.size <integer>\n" in text
    for words in ("Number of routers", "default 1", "at least 0", "at most 64"):
        assert words in text


def test_fields_of_the_items_of_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, "router.spec.listeners")
    assert "<[]object>" in text
    assert "string required" in text
    assert "two listeners have the same port" in text
    assert "<integer> required" in explained(capsys, "router.spec.listeners.port")


def test_all_fields_below(capsys: pytest.CaptureFixture[str]) -> None:
    assert "  timeoutSeconds" in explained(capsys, "router.spec", recursive=True)
    assert "  timeoutSeconds" not in explained(capsys, "router.spec")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("ruoter", "no kind ruoter; kinds are Address, AutoLink, Broker, Exchange, LinkRoute, Router"),
        ("router.spec.sise", "Router.spec has no field sise; did you mean size?"),
        ("router.spec.size.more", "Router.spec.size has no field more"),
        ("broker.spec.auth.xyz", "Broker.spec.auth has no field xyz; its fields are "),
        ("router.", "Router has no field ; its fields are apiVersion, "),
    ],
)
def test_what_does_not_exist(path: str, reason: str) -> None:
    with pytest.raises(WaymeshError) as raised:
        run_explain(path, False, no_color=True)
    assert str(raised.value).startswith(reason)


def test_types_as_kubectl_writes_them() -> None:
    assert type_of({"type": "array", "items": {"type": "object", "additionalProperties": {"type": "string"}}}) == (
        "[]map[string]string"
    )
    assert type_of({"x-kubernetes-int-or-string": True}) == "integer or string"
    assert type_of({}) == "any"


def test_what_a_value_may_be() -> None:
    schema = {"default": False, "enum": ["a", ""], "minimum": 0, "pattern": "^a$"}
    assert list(allowed(schema)) == ["default false", 'one of a, ""', "at least 0", "matches ^a$"]
