"""Seeds that do not fit into one ConfigMap are spread over several, which pods of new meshes mount as one folder."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.seeds import mounted, shared_rows
from tests.operator.kit import NAMESPACE, Lab, run
from waymesh_operator.places.kubernetes import desired
from waymesh_operator.places.kubernetes.objects import LIMIT_BYTES, seed_bytes
from waymesh_operator.places.kubernetes.stateful_set import SEED_FOLDER
from waymesh_schema.config import read_config

pytestmark = pytest.mark.engine_independent

SMALL = 4096
"""A limit for tests with few resources."""
FORMER_COMMAND = [
    "waymesh-router", "-c", f"{SEED_FOLDER}/shared.json.gz", "-c", f"{SEED_FOLDER}/$(POD_NAME).json",
]  # fmt: skip


def prefix(number: int, characters: int) -> str:
    """Text that cannot be compressed much."""
    digests = (hashlib.sha256(f"{number}/{part}".encode()).digest() for part in range(characters // 42 + 1))
    return base64.urlsafe_b64encode(b"".join(digests)).decode()[:characters]


def add_addresses(lab: Lab, first: int, last: int, characters: int = 100) -> None:
    for number in range(first, last):
        lab.add("Address", f"a{number}", prefix=prefix(number, characters))


def seed_maps(lab: Lab) -> dict[str, Any]:
    found = lab.kube.select("ConfigMap", NAMESPACE)
    return {body["metadata"]["name"]: body for body in found if body["metadata"]["name"].startswith("mesh-seed")}


def addresses_to_boot_with(lab: Lab) -> list[str]:
    rows = shared_rows(lambda name: lab.kube.objects.get(("ConfigMap", NAMESPACE, name)))
    return sorted(attributes["prefix"] for kind, attributes in rows if kind == "router.config.address")


def template(lab: Lab) -> dict[str, Any]:
    return dict(lab.kube.objects["StatefulSet", NAMESPACE, "mesh"]["spec"]["template"]["spec"])


def as_before(lab: Lab) -> None:
    """The StatefulSet is one of an earlier operator: its pods read one ConfigMap."""

    def change(body: dict[str, Any]) -> None:
        spec = body["spec"]["template"]["spec"]
        spec["containers"][0]["command"] = FORMER_COMMAND
        spec["volumes"][0] = {"name": "seed", "configMap": {"name": "mesh-seed"}}

    lab.kube.edit("StatefulSet", NAMESPACE, "mesh", change)


def test_a_new_mesh_has_as_many_config_maps_as_its_seeds_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desired, "LIMIT_BYTES", SMALL)

    async def story(lab: Lab) -> None:
        lab.router(2)
        await lab.settle()
        pods = template(lab)
        assert list(seed_maps(lab)) == ["mesh-seed"]
        add_addresses(lab, 0, 50)
        await lab.settle()
        assert len(seed_maps(lab)) == 2
        add_addresses(lab, 50, 100)
        await lab.settle()
        assert len(seed_maps(lab)) == 4
        assert all(seed_bytes(body) <= SMALL for body in seed_maps(lab).values())
        assert addresses_to_boot_with(lab) == sorted(prefix(number, 100) for number in range(100))
        assert lab.condition("Ready") == ("True", "Ready")
        assert lab.status()["drift"]["repaired"] == 0
        assert template(lab) == pods, "nothing restarts the pods"
        lab.router(3)
        await lab.settle()
        assert len(lab.live("mesh-2").names("router.config.address")) == 100

    run(story)


@pytest.mark.parametrize("count", [0, 50, 100])
def test_routers_read_the_files_of_their_command(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desired, "LIMIT_BYTES", SMALL)

    async def story(lab: Lab) -> None:
        lab.router(2)
        add_addresses(lab, 0, count)
        await lab.settle()
        for name, data in mounted(lambda name: lab.kube.objects.get(("ConfigMap", NAMESPACE, name))).items():
            (tmp_path / name).write_bytes(data)
        command = template(lab)["containers"][0]["command"]
        names = [Path(word).name.replace("$(POD_NAME)", "mesh-1") for word in command if word.startswith(SEED_FOLDER)]
        entries = read_config(*(tmp_path / name for name in names))
        found = sorted(entry.attributes["prefix"] for entry in entries if entry.type.name == "router.config.address")
        assert found == sorted(prefix(number, 100) for number in range(count))
        assert [entry.attributes["id"] for entry in entries if entry.type.name == "router"] == ["mesh-1"]

    run(story)


def test_an_entity_stays_in_its_file_when_others_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a pod that mounts files of two moments finds no entity twice; the number of files does not shrink."""
    monkeypatch.setattr(desired, "LIMIT_BYTES", SMALL)

    async def story(lab: Lab) -> None:
        lab.router(1)
        add_addresses(lab, 0, 100)
        await lab.settle()
        for number in range(90):
            lab.kube.remove("Address", NAMESPACE, f"a{number}")
        lab.kube.calls.clear()
        await lab.settle()
        assert len(seed_maps(lab)) == 4
        assert addresses_to_boot_with(lab) == sorted(prefix(number, 100) for number in range(90, 100))
        assert lab.condition("Converged")[0] == "True"
        lab.kube.calls.clear()
        lab.kube.remove("ConfigMap", NAMESPACE, "mesh-seed-3")
        await lab.settle()
        assert [call for call in lab.kube.writes() if call[1] == "ConfigMap"] == [("apply", "ConfigMap", "mesh-seed-3")]
        assert addresses_to_boot_with(lab) == sorted(prefix(number, 100) for number in range(90, 100))
        assert lab.status()["drift"]["repaired"] == 1

    run(story)


def test_pods_that_read_one_config_map_read_several_with_their_next_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desired, "LIMIT_BYTES", SMALL)

    async def story(lab: Lab) -> None:
        lab.router(1)
        await lab.settle()
        as_before(lab)
        await lab.settle()
        assert template(lab)["containers"][0]["command"] == FORMER_COMMAND, "no upgrade restarts a pod"
        assert template(lab)["volumes"][0] == {"name": "seed", "configMap": {"name": "mesh-seed"}}
        add_addresses(lab, 0, 50)
        await lab.settle()
        assert lab.condition("Stalled") == ("True", "Stalled")
        assert list(seed_maps(lab)) == ["mesh-seed"]
        assert len(lab.live("mesh-0").names("router.config.address")) == 50, "running routers have them"
        lab.router(1, pod={"image": "router:2"})
        await lab.settle()
        assert lab.condition("Stalled")[0] == "False"
        assert len(seed_maps(lab)) == 2
        assert len(addresses_to_boot_with(lab)) == 50
        assert f"{SEED_FOLDER}/shared-2.json.gz" in template(lab)["containers"][0]["command"]
        sources = template(lab)["volumes"][0]["projected"]["sources"]
        assert [source["configMap"].get("optional", False) for source in sources] == [False, True, True, True]

    run(story)


def test_what_does_not_fit_into_four_config_maps_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desired, "LIMIT_BYTES", SMALL)

    async def story(lab: Lab) -> None:
        lab.router(1)
        await lab.settle()
        before = seed_maps(lab)
        add_addresses(lab, 0, 400)
        await lab.settle()
        assert lab.condition("Stalled") == ("True", "Stalled")
        assert seed_maps(lab) == before
        assert len(lab.live("mesh-0").names("router.config.address")) == 400

    run(story)


def test_six_thousand_addresses_of_230_characters_work() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        add_addresses(lab, 0, 6000, 230)
        await lab.settle()
        assert lab.condition("Ready") == ("True", "Ready")
        sizes = [seed_bytes(body) for body in seed_maps(lab).values()]
        assert sum(sizes) > LIMIT_BYTES
        assert max(sizes) <= LIMIT_BYTES
        assert len(json.dumps(addresses_to_boot_with(lab))) > 6000 * 230

    run(story)
