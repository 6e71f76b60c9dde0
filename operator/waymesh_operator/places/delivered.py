"""Which routers have received the present configuration. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from waymesh_operator.planning.actions import Action
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.manifests import MANIFEST_ANNOTATION
from waymesh_operator.planning.plan import Drift
from waymesh_operator.router_entities.actions import EntityAction
from waymesh_operator.routers.observed import RouterState

from .place import Observation


@dataclass(slots=True)
class DeliveredSeeds:
    """For each router its current start (`Observation.start_ids`) and the seed that it matched last."""

    _known: dict[str, tuple[str, str]] | None = None

    def fresh(self, desired: DesiredState, seen: Observation, was_converged: bool) -> frozenset[str]:
        """Running routers that have not matched this configuration since they started.

        `was_converged`: the mesh had converged before the first observation, so its routers have received it.
        """
        present = _present(desired, seen)
        if self._known is None:
            self._known = dict(present) if was_converged else {}
        return frozenset(name for name, now in present.items() if self._known.get(name) != now)

    def note(
        self,
        desired: DesiredState,
        seen: Observation,
        steps: Iterable[Action],
        drift: Drift,
        refused: Collection[tuple[str, tuple[str, str]]],
    ) -> None:
        """Note which routers match: those without actions other than refused ones."""
        behind = {
            step.router_id
            for step in steps
            if isinstance(step, EntityAction) and (step.router_id, step.entity.key) not in refused
        }
        former = self._known or {}
        self._known = {name: known for name, known in former.items() if name in seen.mesh.routers}
        present = _present(desired, seen)
        self._known |= {name: now for name, now in present.items() if name not in behind | drift.routers}


def _present(desired: DesiredState, seen: Observation) -> dict[str, tuple[str, str]]:
    """Return start and desired seed of each running router: of its own seed, or the digests of the objects with all."""
    seeds = [item for item in desired.objects if item["kind"] == "ConfigMap"]
    digest = " ".join(str(item["metadata"]["annotations"][MANIFEST_ANNOTATION]) for item in seeds)
    running = (name for name, router in seen.mesh.routers.items() if router.state is RouterState.RUNNING)
    return {name: (seen.start_ids.get(name, ""), desired.seeds.get(name, digest)) for name in running}
