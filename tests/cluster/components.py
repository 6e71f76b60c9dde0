"""How each component is configured and called: files into the node's folder, argument lists for its init."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.network import Network
from tests.cluster.system import Unsuitable, cni_folder

PAUSE_IMAGE = "localhost/pause:1"
API_PORT = 6443
METRICS_PORT = 4443
METRICS_SERVICE = "metrics-server.kube-system.svc"
FRONT_PROXY = "front-proxy"
"""The name under which the API server hands requests to metrics-server."""

CLUSTER_DOMAIN = "cluster.local"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
AUDITED = "system:serviceaccounts:waymesh-system"
"""Requests of these users are written to log/audit.log of the cluster's folder."""

# Looked up often and refused at once: the tests' clusters have no image registry, no cloud, no resolver of their own.
RESOLV_CONF = "options ndots:1\n"

CONTAINERD = """\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
address = "{socket}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
# Lowering a score takes CAP_SYS_RESOURCE, which a machine in a sandbox lacks.
restrict_oom_score_adj = true
disable_apparmor = true
disable_hugetlb_controller = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{cni}"
conf_dir = "{folder}/cni"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""

COREFILE = """\
.:53 {{
  bind {address}
  errors
  kubernetes {domain} in-addr.arpa {{
    kubeconfig {kubeconfig}
    ttl 1
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node's things are. All paths are the machine's: they are the same inside the namespaces."""

    binaries: Path
    cluster: Path
    """The cluster's folder: pki/, log/ and a folder for each node."""
    name: str
    number: int
    network: Network
    cgroup: str

    @property
    def folder(self) -> Path:
        """The node's own folder."""
        return self.cluster / self.name

    @property
    def pki(self) -> Path:
        """The folder of the cluster's certificates."""
        return self.cluster / "pki"

    @property
    def address(self) -> str:
        """The node's address."""
        return self.network.node(self.number)


def component(name: str, argv: list[str], needs: list[str] | None = None) -> dict[str, Any]:
    """One program for the node's init; `needs` are paths of sockets, or `https://…` that must answer 200 first."""
    return {"name": name, "argv": argv, "needs": needs or []}


def write_node_files(place: Place) -> None:
    """The configuration files of containerd, the CNI plugins, kubelet and kube-proxy."""
    folder = place.folder
    plugins = cni_folder()
    if plugins is None:
        raise Unsuitable("the CNI plugins are missing")
    (folder / "cni").mkdir(parents=True, exist_ok=True)
    (folder / "cni" / "10-pods.conflist").write_text(json.dumps(_pod_network(place), indent=1))
    text = CONTAINERD.format(socket=CONTAINERD_SOCKET, pause=PAUSE_IMAGE, cni=plugins, folder=folder)
    (folder / "containerd.toml").write_text(text)
    (folder / "resolv.conf").write_text(RESOLV_CONF)
    (folder / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet(place)))
    (folder / "kube-proxy.yaml").write_text(yaml.safe_dump(_kube_proxy(place)))


def write_control_files(place: Place) -> None:
    """The configuration files of what runs on node 1 only."""
    place.folder.mkdir(parents=True, exist_ok=True)
    text = COREFILE.format(address=place.address, domain=CLUSTER_DOMAIN, kubeconfig=place.pki / "admin.kubeconfig")
    (place.folder / "Corefile").write_text(text)
    rules = [{"level": "Metadata", "userGroups": [AUDITED], "omitStages": ["RequestReceived"]}, {"level": "None"}]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
    (place.folder / "audit.yaml").write_text(yaml.safe_dump(policy))


def node_components(place: Place) -> list[dict[str, Any]]:
    """What runs on each node."""
    binaries, folder = place.binaries, place.folder
    kubelet = [
        f"{binaries}/kubelet",
        f"--config={folder}/kubelet.yaml",
        f"--kubeconfig={place.pki}/kubelet-{place.name}.kubeconfig",
        f"--hostname-override={place.name}",
        f"--node-ip={place.address}",
        "--root-dir=/var/lib/kubelet",
    ]
    proxy = [f"{binaries}/kube-proxy", f"--config={folder}/kube-proxy.yaml", f"--hostname-override={place.name}"]
    # It enforces NetworkPolicies; what the cluster's other components do is not for it to do again.
    firewall = [
        f"{binaries}/kube-router",
        f"--kubeconfig={place.pki}/admin.kubeconfig",
        f"--hostname-override={place.name}",
        f"--service-cluster-ip-range={place.network.services}",
    ]
    api = f"https://{place.network.node(1)}:{API_PORT}/readyz"
    return [
        component("containerd", ["containerd", f"--config={folder}/containerd.toml"]),
        component("kubelet", kubelet, [CONTAINERD_SOCKET, api]),
        component("kube-proxy", proxy, [api]),
        component("kube-router", firewall, [api]),
    ]


def control_components(place: Place) -> list[dict[str, Any]]:
    """What runs on node 1 only."""
    binaries, folder, pki = place.binaries, place.folder, place.pki
    api = f"https://127.0.0.1:{API_PORT}/readyz"
    etcd = [
        f"{binaries}/etcd",
        f"--data-dir={folder}/etcd",
        "--unsafe-no-fsync",
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--initial-advertise-peer-urls=http://127.0.0.1:2380",
        "--initial-cluster=default=http://127.0.0.1:2380",
    ]
    dns = [f"{binaries}/coredns", f"-conf={folder}/Corefile"]
    return [
        component("etcd", etcd),
        component("kube-apiserver", _api_server(place)),
        component("kube-controller-manager", _controller_manager(place), [api]),
        component("kube-scheduler", [f"{binaries}/kube-scheduler", *_client_flags(pki, "scheduler")], [api]),
        component("coredns", dns, [api]),
        component("metrics-server", _metrics_server(place), [api]),
    ]


def _client_flags(pki: Path, user: str) -> list[str]:
    kubeconfig = f"{pki}/{user}.kubeconfig"
    delegated = [f"--{use}-kubeconfig={kubeconfig}" for use in ("authentication", "authorization")]
    return [f"--kubeconfig={kubeconfig}", *delegated, "--bind-address=127.0.0.1", "--leader-elect=false"]


def _api_server(place: Place) -> list[str]:
    pki = place.pki
    return [
        f"{place.binaries}/kube-apiserver",
        "--etcd-servers=http://127.0.0.1:2379",
        "--bind-address=0.0.0.0",
        f"--secure-port={API_PORT}",
        f"--advertise-address={place.address}",
        f"--service-cluster-ip-range={place.network.services}",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
        f"--requestheader-client-ca-file={pki}/ca.crt",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki}/{FRONT_PROXY}.crt",
        f"--proxy-client-key-file={pki}/{FRONT_PROXY}.key",
        f"--service-account-issuer=https://kubernetes.default.svc.{CLUSTER_DOMAIN}",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--audit-policy-file={place.folder}/audit.yaml",
        f"--audit-log-path={place.cluster}/log/audit.log",
    ]


def _controller_manager(place: Place) -> list[str]:
    pki = place.pki
    return [
        f"{place.binaries}/kube-controller-manager",
        *_client_flags(pki, "controllers"),
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={pki}/sa.key",
        f"--root-ca-file={pki}/ca.crt",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        "--kube-api-qps=200",
        "--kube-api-burst=300",
        # A lost node is noticed in seconds, as tests need it.
        "--node-monitor-period=2s",
        "--node-monitor-grace-period=16s",
        "--horizontal-pod-autoscaler-sync-period=5s",
    ]


def _metrics_server(place: Place) -> list[str]:
    pki = place.pki
    return [
        f"{place.binaries}/metrics-server",
        *(f"--{use}kubeconfig={pki}/admin.kubeconfig" for use in ("", "authentication-", "authorization-")),
        "--bind-address=127.0.0.1",
        f"--secure-port={METRICS_PORT}",
        f"--tls-cert-file={pki}/metrics-server.crt",
        f"--tls-private-key-file={pki}/metrics-server.key",
        "--kubelet-preferred-address-types=InternalIP",
        # The least that it takes; a request may last nine tenths of it.
        "--metric-resolution=10s",
        "--kubelet-request-timeout=9s",
    ]


def _pod_network(place: Place) -> dict[str, Any]:
    ranges = [[{"subnet": place.network.pods(place.number)}]]
    bridge = {
        "type": "bridge",
        "bridge": "pods0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]},
    }
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}


def _kubelet(place: Place) -> dict[str, Any]:
    pki, folder = place.pki, place.folder
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{pki}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{pki}/kubelet-server-{place.name}.crt",
        "tlsPrivateKeyFile": f"{pki}/kubelet-server-{place.name}.key",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "volumePluginDir": "/var/lib/kubelet/plugins-exec",
        # All that a pod may use lies below a group of the cluster's own, which `down` removes.
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{place.cgroup}/{place.name}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [place.network.node(1)],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": f"{folder}/resolv.conf",
        "maxPods": 200,
        "serializeImagePulls": False,
        # Images are only imported: none may be thrown away to make room.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "nodeStatusUpdateFrequency": "5s",
        "nodeLeaseDurationSeconds": 10,
        # A changed ConfigMap or Secret reaches the pod's files within seconds.
        "syncFrequency": "5s",
        "maxOpenFiles": 100000,
    }


def _kube_proxy(place: Place) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": f"{place.pki}/proxy.kubeconfig"},
        "mode": "nftables",
        "clusterCIDR": place.network.pods(place.number),
        "nodePortAddresses": ["primary"],
        # Zero leaves the machine's settings, which are not ours, as they are.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
