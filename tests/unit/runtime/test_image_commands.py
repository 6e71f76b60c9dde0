"""Each image can run all of its commands with only its own packages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster.images import RECIPES
from tests.cluster.paths import REPO
from tests.cluster.rootfs import scripts
from tests.kit.image_help import check_help

pytestmark = pytest.mark.engine_independent

FILES = {"router": "router_image/Dockerfile", "operator": "Dockerfile", "analytics": "Dockerfile"}


def shipped(image: str) -> tuple[set[str], set[str]]:
    """The extras that a Dockerfile installs in an image, and the scripts that it keeps."""
    text = (REPO / FILES[image]).read_text(encoding="utf-8")
    stages = re.split(r"^FROM ", text, flags=re.MULTILINE)
    wanted = "build" if image == "router" else f"build-{image}"
    (stage,) = (stage for stage in stages if stage.splitlines()[:1] and stage.splitlines()[0].endswith(f" AS {wanted}"))
    (extras,) = re.findall(r'"\.\[([a-z,]+)\]"', stage)
    removed = re.findall(r"/made/bin/([a-z-]+)", stage)
    return set(extras.split(",")), set(scripts()) - set(removed)


@pytest.mark.parametrize("image", RECIPES)
def test_image_of_the_tests_holds_what_the_real_one_holds(image: str) -> None:
    assert shipped(image) == (set(RECIPES[image].extras), set(RECIPES[image].scripts))


COMMANDS = [
    *((image, *scripts()[name]) for image, recipe in RECIPES.items() for name in recipe.scripts),
    ("operator", "waymesh_operator", ""),
]


@pytest.mark.parametrize(("image", "module", "function"), COMMANDS)
def test_command_of_an_image_shows_its_help(tmp_path: Path, image: str, module: str, function: str) -> None:
    check_help(tmp_path, image, module, function)


def test_job_of_the_analytics_image_shows_its_help_before_it_needs_spark(tmp_path: Path) -> None:
    check_help(tmp_path, "", "waymesh_analytics")
