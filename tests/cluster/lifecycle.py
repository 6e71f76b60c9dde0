"""A cluster from `up` to `down`: one node at first, more on demand, and nothing left behind."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from tests.cluster import binaries, components, images, system
from tests.cluster.api import Api, ApiError
from tests.cluster.command import CommandError, run
from tests.cluster.components import API_PORT, CLUSTER_DOMAIN, Place
from tests.cluster.network import MAX_NODES, Network, free_network
from tests.cluster.nodes import Node, remove_cgroups
from tests.cluster.paths import cache, locked, say
from tests.cluster.pki import Authority, write_signing_key
from tests.kit.waiting import wait_until

DEFAULT_NAME = "test"
START_DEADLINE_S = 300


class Cluster:
    """A cluster by name. The object holds no state of its own: another process sees the same cluster."""

    def __init__(self, name: str = DEFAULT_NAME) -> None:
        self.name = name
        self.folder = cache() / "clusters" / name
        self._api: Api | None = None

    @property
    def cgroup(self) -> str:
        """The control group of all nodes."""
        return f"waymesh-{self.name}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "pki" / "admin.kubeconfig"

    @property
    def api(self) -> Api:
        """The API server, as administrator."""
        if self._api is None:
            self._api = Api(self.kubeconfig)
        return self._api

    @property
    def network(self) -> Network:
        """Its addresses."""
        return Network(json.loads((self.folder / "cluster.json").read_text())["network"])

    @property
    def nodes(self) -> list[Node]:
        """The nodes that were started and not removed, node 1 first."""
        return [Node(path.parent) for path in sorted(self.folder.glob("node*/node.json"))]

    @property
    def running(self) -> bool:
        """Whether node 1 is alive."""
        return Node(self.folder / "node1").init != 0

    @property
    def ready(self) -> bool:
        """Whether it runs and its API server answers."""
        if not self.running:
            return False
        try:
            return bool(self.api.request("GET", "/readyz") == "ok")
        except (OSError, ApiError):
            return False

    def up(self) -> None:
        """A new one-node cluster, after what a broken run may have left is gone. Returns when pods can run."""
        system.ensure()
        folder = binaries.kubernetes()
        self.down()
        began = time.monotonic()
        (self.folder / "log").mkdir(parents=True)
        self._take_network()
        place = self._place(1, folder)
        self._certificates(place)
        components.write_control_files(place)
        self._start(place, [*components.control_components(place), *components.node_components(place)])
        wait_until(self._has_default_account, START_DEADLINE_S, lambda: f"default service account: {self.trouble()}")
        say(f"{self.name}: ready after {time.monotonic() - began:.1f} s")

    def add_node(self, *wanted: str) -> str:
        """One more node with these of the images that node 1 has (none named: with all); its name, when it is Ready."""
        taken = {node.name for node in self.nodes}
        number = next(n for n in range(2, MAX_NODES + 1) if f"node{n}" not in taken)
        place = self._place(number, binaries.kubernetes())
        self._start(place, components.node_components(place), wanted)
        return place.name

    def remove_node(self, name: str) -> None:
        """Ends a node other than node 1 and forgets it; its pods are lost as with a machine that burns."""
        node = Node(self.folder / name)
        number = int(name.removeprefix("node"))
        self.kill_node(name)
        with contextlib.suppress(CommandError):
            run("ip", "route", "del", self.network.pods(number))
        self.api.delete("Node", name)
        remove_cgroups(f"{self.cgroup}/{name}")
        shutil.rmtree(node.folder)

    def kill_node(self, name: str) -> None:
        """Ends a node without a word to the API server, which notices by itself."""
        if name == "node1":
            raise ValueError("node1 carries the control plane: use down()")
        Node(self.folder / name).kill()

    def down(self) -> None:
        """Ends all of it and removes its folder; no complaint when there is nothing."""
        if not self.folder.exists():
            return
        for node in self.nodes:
            node.kill()
        for half_started in self.folder.glob("node*/outer.pid"):
            Node(half_started.parent).kill()
        with contextlib.suppress(FileNotFoundError, CommandError):
            run("ip", "link", "del", self.network.link)
        remove_cgroups(self.cgroup)
        shutil.rmtree(self.folder)
        self._api = None

    def restart_component(self, name: str) -> None:
        """Kills a component of node 1; it is started again at once. Returns when the API server is there (again)."""
        Node(self.folder / "node1").restart_component(name)
        wait_until(lambda: self.ready, 180, "the API server after a restart")

    def stop_component(self, name: str) -> None:
        """Kills a component of node 1 until `start_component`."""
        Node(self.folder / "node1").stop_component(name)

    def start_component(self, name: str) -> None:
        """Starts a stopped component of node 1."""
        Node(self.folder / "node1").start_component(name)
        wait_until(lambda: self.ready, 180, "the API server after a start")

    def import_images(self, archives: Iterable[Path]) -> None:
        """Makes images known on all nodes, unless they are; later nodes get them too."""
        with locked(f"images-{self.name}"):
            self._import_images(archives)

    def _import_images(self, archives: Iterable[Path]) -> None:
        known = self._images()
        # Of an image made anew only the newest archive counts: `router-HASH.tar` takes the place of the one before.
        wanted = {path.name.rpartition("-")[0]: str(path) for path in archives}
        for node in self.nodes:
            for name, archive in wanted.items():
                if known.get(name) != archive:
                    node.import_image(Path(archive))
        (self.folder / "images.json").write_text(json.dumps(known | wanted))

    def operator_requests(self) -> list[str]:
        """What the operator installed by the chart has asked of the API server so far: `patch secrets`, in order."""
        return [f"{e['verb']} {e.get('objectRef', {}).get('resource', e['requestURI'])}" for e in self.audit_log()]

    def audit_log(self) -> list[dict[str, Any]]:
        """The API server's audit Events (audit.k8s.io/v1) of accounts in the operator's namespace, in order."""
        lines = (self.folder / "log" / "audit.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    def trouble(self) -> str:
        """The ends of the components' logs, for the report of a start that failed."""
        parts = []
        for log in sorted([*self.folder.glob("node*/init.log"), *self.folder.glob("node*/log/*.log")]):
            tail = log.read_text(errors="replace")[-600:].strip()
            parts.append(f"--- {log.parent.name}/{log.name}\n{tail}")
        return "\n".join(parts)

    def _take_network(self) -> None:
        with locked("networks"):
            others = self.folder.parent.glob("*/cluster.json")
            taken = {json.loads(path.read_text())["network"] for path in others}
            (self.folder / "cluster.json").write_text(json.dumps({"network": free_network(taken).index}))

    def _place(self, number: int, folder: Path) -> Place:
        return Place(folder, self.folder, f"node{number}", number, self.network, self.cgroup)

    def _certificates(self, place: Place) -> None:
        """The CA, the API server's certificates, and a kubeconfig for each component."""
        authority = Authority(place.pki)
        write_signing_key(place.pki)
        server = f"https://{place.address}:{API_PORT}"
        service = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        names = [*service, f"{service[-1]}.{CLUSTER_DOMAIN}", "localhost", "127.0.0.1"]
        addresses = [place.address, place.network.api_service]
        authority.write("apiserver", authority.issue("kube-apiserver", names=[*names, *addresses]))
        authority.write("kubelet-client", authority.issue("apiserver-kubelet-client", "system:masters"))
        authority.write(components.FRONT_PROXY, authority.issue(components.FRONT_PROXY))
        authority.write("metrics-server", authority.issue("metrics-server", names=[components.METRICS_SERVICE]))
        users = {"admin": ("admin", "system:masters"), "controllers": ("system:kube-controller-manager", "")}
        users |= {"scheduler": ("system:kube-scheduler", ""), "proxy": ("system:kube-proxy", "")}
        for file, (common_name, organization) in users.items():
            authority.kubeconfig(file, server, authority.issue(common_name, organization))

    def _start(self, place: Place, programs: list[dict[str, object]], wanted: Collection[str] = ()) -> None:
        """Starts a node, gives it the images (none named: all), and waits until it is Ready."""
        place.folder.mkdir(parents=True, exist_ok=True)
        authority = Authority(place.pki)
        names = [place.name, place.address]
        authority.write(f"kubelet-server-{place.name}", authority.issue(place.name, names=names))
        pair = authority.issue(f"system:node:{place.name}", "system:nodes")
        authority.kubeconfig(f"kubelet-{place.name}", f"https://{place.network.node(1)}:{API_PORT}", pair)
        components.write_node_files(place)
        node = Node(place.folder)
        node.start(place, programs)
        node.link(place, None if place.number == 1 else Node(self.folder / "node1"))
        known = self._images()
        for path in [images.pause(), *(Path(known[name]) for name in wanted or known)]:
            node.import_image(path)
        wait_until(lambda: self._is_ready(node), START_DEADLINE_S, lambda: f"{node.name} Ready: {self.trouble()}")

    def _images(self) -> dict[str, str]:
        """The archives of the images that every node has, by name."""
        known = self.folder / "images.json"
        return dict(json.loads(known.read_text())) if known.exists() else {}

    def _is_ready(self, node: Node) -> bool:
        if not node.init:
            raise RuntimeError(f"{node.name} ended:\n{self.trouble()}")
        try:
            found = self.api.get("Node", node.name) or {}
        except (OSError, ApiError):
            return False
        conditions = found.get("status", {}).get("conditions", [])
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def _has_default_account(self) -> bool:
        return self.api.get("ServiceAccount", "default", "default") is not None
