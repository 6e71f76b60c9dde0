"""An in-memory mesh that executes plans and refuses what a real router would refuse."""

from __future__ import annotations

from dataclasses import replace

from waymesh_operator.places.local.desired import LocalContext, RouterAddresses, desired_local
from waymesh_operator.planning.actions import Action, CreateRouter, RestartRouter, StopRouter, WriteSeed
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.plan import ObservedState, plan
from waymesh_operator.resources.dependents import Address, Resources
from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.router_entities.actions import (
    CreateEntity,
    DeleteEntity,
    DrainRouter,
    UndrainRouter,
    UpdateEntity,
    exclusive_key,
)
from waymesh_operator.router_entities.names import LOG, Entity
from waymesh_operator.routers.observed import ObservedMesh, ObservedRouter, RouterFacts, RouterState

MESH = Ref("default", "mesh")


def places(router: Router) -> list[RouterAddresses]:
    """Made-up places: no two ports are the same."""
    return [
        RouterAddresses(
            "127.0.0.1", "127.0.0.1", 20000 + k, 30000 + k, {li.name: li.port + k for li in router.listeners}
        )
        for k in range(router.size)
    ]


def desire(router: Router, *addresses: Address) -> DesiredState:
    """The desired state of a Router with made-up places."""
    return desired_local(Resources(router, addresses), LocalContext(places(router)))


def address(name: str, **spec: object) -> Address:
    """An Address of the mesh; its prefix is its name unless said."""
    if "pattern" not in spec:
        spec.setdefault("prefix", name)
    return Address(ref=Ref("default", name), router=MESH, **spec)  # type: ignore[arg-type]


class ModelMesh:
    """Applies actions to an ObservedMesh. `log` holds what was done; running routers have the default log modules."""

    def __init__(self) -> None:
        self.routers: dict[str, ObservedRouter] = {}
        self.log: list[Action] = []
        self.draining: dict[str, str] = {}
        self.leaving: set[str] = set()

    @property
    def observed(self) -> ObservedState:
        mesh = ObservedMesh({name: replace(one, facts=self._facts(one)) for name, one in self.routers.items()})
        return ObservedState(mesh=mesh, draining=dict(self.draining), leaving=frozenset(self.leaving))

    def _facts(self, router: ObservedRouter) -> RouterFacts:
        """Every router is next to every other one."""
        return RouterFacts(neighbours=tuple(name for name in self.routers if name != router.id))

    def reconcile(self, desired: DesiredState) -> tuple[Action, ...]:
        """Plan and carry out; returns the plan. What drains is drained then."""
        actions = plan(desired, self.observed)
        for action in actions:
            self.apply(action)
        self.settle()
        return actions

    def converge(self, desired: DesiredState) -> tuple[Action, ...]:
        """Reconcile until nothing is left to do; returns all actions."""
        done: list[Action] = []
        for _ in range(100):
            waits = "draining" in self.draining.values()
            actions = self.reconcile(desired)
            if not actions and not waits:
                return tuple(done)
            done += actions
        raise AssertionError(f"still to do: {[a.describe() for a in actions]}")

    def settle(self) -> None:
        """Routers that drain are done with it."""
        self.draining = {name: "none" if state == "none" else "drained" for name, state in self.draining.items()}

    def apply(self, action: Action) -> None:
        """Carry out one action."""
        self.log.append(action)
        match action:
            case CreateRouter() | RestartRouter():
                router = action.router
                self.routers[router.id] = ObservedRouter(
                    router.id, router.ordinal, RouterState.RUNNING, action.seed, router.entities
                )
                self.draining[router.id] = "none"
            case DrainRouter():
                self.draining[action.router_id] = "draining"
                self.leaving.add(action.router_id)
            case UndrainRouter():
                self.draining[action.router_id] = "none"
                self.leaving.remove(action.router_id)
            case StopRouter():
                assert action.router_id == max(self.routers.values(), key=lambda r: r.ordinal).id
                assert self.draining.pop(action.router_id) == "drained", "lost messages"
                self.leaving.discard(action.router_id)
                del self.routers[action.router_id]
            case WriteSeed():
                self._change(action.router_id, seed=action.seed)
            case CreateEntity():
                self._create(action.router_id, action.entity)
            case DeleteEntity():
                live = self._entities(action.router_id)
                assert any((e.type, e.name) == (action.entity.type, action.entity.name) for e in live)
                kept = [e for e in live if (e.type, e.name) != (action.entity.type, action.entity.name)]
                self._change(action.router_id, entities=tuple(kept))
            case UpdateEntity():
                self._update(action)

    def _create(self, router_id: str, entity: Entity) -> None:
        live = self._entities(router_id)
        assert entity.type != LOG
        assert all((e.type, e.name) != (entity.type, entity.name) for e in live), f"name taken: {entity}"
        assert all(exclusive_key(e) != exclusive_key(entity) for e in live), f"conflict: {entity}"
        self._change(router_id, entities=(*live, entity))

    def _update(self, action: UpdateEntity) -> None:
        new = {name: wanted for name, (_, wanted) in action.changes.items()}
        entities = [
            Entity(e.type, e.name, {**e.attributes, **new}) if e is action.entity else e
            for e in self._entities(action.router_id)
        ]
        self._change(action.router_id, entities=tuple(entities))

    def _entities(self, router_id: str) -> tuple[Entity, ...]:
        return self.routers[router_id].entities

    def _change(self, router_id: str, **fields: object) -> None:
        self.routers[router_id] = replace(self.routers[router_id], **fields)  # type: ignore[arg-type]

    def set(self, router_id: str, **fields: object) -> None:
        """Something happens behind the operator's back."""
        self._change(router_id, **fields)

    def put(self, router_id: str, entity: Entity) -> None:
        """Somebody else makes an entity."""
        self._create(router_id, entity)
