"""Which tests a session runs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from tests.kit.changes import words
from tests.kit.selection import PARTS, chosen, leads_to_starter, runs_compiled

pytestmark = pytest.mark.engine_independent


def module(name: str, **content: object) -> ModuleType:
    """A module with these values."""
    made = ModuleType(name)
    vars(made).update(content)
    return made


def test_a_module_leads_to_processes_through_others() -> None:
    near = module("tests.near", subprocess=subprocess)
    far = module("tests.far", near=near)
    quiet = module("tests.quiet", Path=Path)
    near.back = far  # type: ignore[attr-defined]
    modules = {one.__name__: one for one in (near, far, quiet)}
    assert leads_to_starter("tests.far", {}, modules)
    assert not leads_to_starter("tests.quiet", {}, modules)
    assert not leads_to_starter("waymesh_amqp", {}, modules)


def test_one_file_of_three_and_those_that_changes_concern() -> None:
    files = {Path(f"tests/interop/test_proton_{n}.py") for n in range(300)}
    third = chosen(files, [])
    assert 300 / PARTS * 0.7 < len(third) < 300 / PARTS * 1.3
    assert third == chosen(files, [])
    (left_out, *_) = files - set(third)
    assert left_out in chosen(files, [left_out])
    policy = Path("tests/interop/test_proton_policy_names.py")
    assert policy in chosen({policy}, [Path("router_image/waymesh_router/policy/links.py")])


def test_words_of_a_path() -> None:
    assert words(Path("tests/interop/test_proton_limits_memory.py")) == ["limit", "memory"]
    assert words(Path("router_image/waymesh_router/policy/links.py")) == ["link", "policy"]


def test_what_the_compiled_engine_does_not_run_is_not_left_out(request: pytest.FixtureRequest) -> None:
    assert not runs_compiled(request.node)  # of this file
    other = pytest.Function.from_parent(request.session, name="other", callobj=module)
    assert runs_compiled(other)
