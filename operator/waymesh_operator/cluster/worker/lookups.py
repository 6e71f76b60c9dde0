"""What users name and Routers refer to, read when it is needed, and the mesh's own certificates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from waymesh_operator.errors import KubeError
from waymesh_operator.kube.kinds import CLAIM, SECRET
from waymesh_operator.resources.model import Ref
from waymesh_operator.tls.rollover import next_tls
from waymesh_operator.tls.state import MeshTls, Phase, TlsRequest, TlsView

from .connections import Routers, secret_data
from .inventory import Key, Object
from .world import World

Data = Mapping[str, bytes]


@dataclass(slots=True)
class UserSecrets:
    """Secrets that resources of a namespace refer to.

    They bear no label of ours, so watching them would mean to watch every Secret of the cluster; they are read again
    with each resync instead, and those that are missing with each turn (`Awaited` sees that there is one).
    """

    mesh: Ref
    world: World
    _known: dict[str, tuple[float, Data | None]] = field(default_factory=dict)

    async def read(self, names: frozenset[str]) -> dict[str, Data | None]:
        """The data of each, None for one that does not exist. Raises KubeError."""
        now, pace = self.world.clock(), self.world.pace
        self._known = {name: known for name, known in self._known.items() if name in names}
        for name in sorted(names):
            at, data = self._known.get(name, (float("-inf"), None))
            if data is None or now - at >= pace.least_resync_s:
                self._known[name] = (now, await read_secret(self.world, self.mesh.namespace, name))
        return {name: data for name, (_, data) in self._known.items()}


async def read_secret(world: World, namespace: str, name: str) -> Data | None:
    """The data of a Secret as it is now; None when there is none. Raises KubeError."""
    try:
        return secret_data(await world.kube.get(SECRET, namespace, name))
    except KubeError as error:
        if error.missing:
            return None
        raise


async def read_claims(world: World, namespace: str, name: str) -> dict[str, tuple[str, ...] | None]:
    """Access modes of the claim of this name, None when there is none; nothing for no name. Raises KubeError."""
    if not name:
        return {}
    try:
        claim = await world.kube.get(CLAIM, namespace, name)
    except KubeError as error:
        if error.missing:
            return {name: None}
        raise
    return {name: tuple(claim["spec"].get("accessModes") or ())}


async def mesh_tls(request: TlsRequest, objects: Mapping[Key, Object], routers: Routers, world: World) -> MeshTls:
    """The certificates as they should be now. Raises KubeError.

    What the watch has told is enough to see that nothing is to do. Before anything is changed the Secrets are read
    afresh: keys must not be made, nor an authority put back, because a watch is behind.
    """
    names = tuple(f"{request.router}-{part}" for part in ("ca", "tls", "operator-tls"))
    bodies = {name: objects.get(("Secret", request.namespace, name)) for name in names}
    seen: dict[str, Data | None] = {name: secret_data(body) if body else None for name, body in bodies.items()}
    tls = await _next(request, seen, routers, world)
    if tls.secrets(request.router) == seen:
        return tls
    seen = {name: await read_secret(world, request.namespace, name) for name in names}
    return await _next(request, seen, routers, world)


async def _next(request: TlsRequest, seen: Mapping[str, Data | None], routers: Routers, world: World) -> MeshTls:
    views = {name: TlsView() for name in routers.pods}
    tls = await world.in_thread(lambda: next_tls(request, seen, views, world.now()))
    if tls.phase is Phase.STABLE:
        return tls
    views = await routers.tls_views(tls)
    return await world.in_thread(lambda: next_tls(request, seen, views, world.now()))
