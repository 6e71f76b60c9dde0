"""The StatefulSet of a Router, and the annotation that makes the kubelet update files of its pods.

Its pod template changes only for image, resources, placement, labels and annotations of the pods, for the drain
time-out (which sets the pods' grace period), for the number of threads, which a router reads when it starts, and for
the target of exported files. Everything else is in the ConfigMap and the Secrets, which are outside the template.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_operator.planning.manifests import LEAVING_ANNOTATION, Manifest, marked
from waymesh_operator.planning.mesh import SHARED_FILE, SHARED_FILES
from waymesh_operator.planning.pods import SECRET_VOLUMES, UPLOADER, named
from waymesh_operator.resources.router import S3, Router, router_id
from waymesh_operator.router_entities.names import CERTIFICATES, CREDENTIALS, TELEMETRY_FOLDER
from waymesh_operator.router_entities.verdicts import S3_KEYS, judge_telemetry

from .context import HTTP_PORT, MANAGEMENT_PORT, MESH_PORT, ClusterContext
from .objects import RESTARTED_ANNOTATION, labels_of, make, seed_name, selector_of

SEED_FOLDER = "/etc/waymesh/seed"
USER_ID = 10001
GRACE_S = 15
"""Seconds beyond the drain time-out that a pod has for a clean shutdown."""
READINESS_S = 1
SECRET_MODE = 0o440
LAST_LINES = "FallbackToLogsOnError"
REQUESTS = {"cpu": "10m", "memory": "64Mi"}
"""Requests of routers without `pod.resources`. A router without clients uses about 40 MiB."""
THREADS_ANNOTATION = "waymesh.io/worker-threads"
"""Annotation of pods whose routers have more than one thread, so that they restart when the number changes."""
_OF_ALL_CONTAINERS = ("image", "imagePullPolicy", "securityContext")
SPREAD_KEYS = ("topology.kubernetes.io/zone", "kubernetes.io/hostname")


def stateful_set(router: Router, context: ClusterContext) -> Manifest:
    """Return the StatefulSet. While routers are being removed it keeps its replicas and names the lowest of them."""
    now = context.size_now or 0
    spec = {
        "replicas": max(router.size, now),
        "serviceName": f"{router.ref.name}-mesh",
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate"},
        "revisionHistoryLimit": 3,
        "selector": {"matchLabels": selector_of(router.ref.name)},
        "template": {"metadata": _pod_metadata(router, context), "spec": _pod_spec(router, context)},
    }
    manifest = make(router, "apps/v1", "StatefulSet", "", {"spec": spec})
    if now <= router.size:
        return manifest
    leaving = {LEAVING_ANNOTATION: router_id(router.ref, router.size)}
    annotations = {**manifest["metadata"]["annotations"], **leaving}
    return marked({**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}})


def image_of(router: Router, context: ClusterContext) -> str:
    """Return the pods' image: the requested one, else the one they already run, else the operator's default."""
    return router.pod.image or context.image_now or context.settings.router_image


def _pod_metadata(router: Router, context: ClusterContext) -> dict[str, Any]:
    """Return labels and annotations of the pods. Keeps the annotation of `kubectl rollout restart`; removing it would
    restart the pods."""
    metadata: dict[str, Any] = {"labels": {**router.pod.labels, **labels_of(router.ref.name)}}
    restarted = {RESTARTED_ANNOTATION: context.restarted_at} if context.restarted_at else {}
    threads = {THREADS_ANNOTATION: str(router.worker_threads)} if router.worker_threads > 1 else {}
    if router.pod.annotations or restarted or threads:
        metadata["annotations"] = restarted | dict(router.pod.annotations) | threads
    return metadata


def _pod_spec(router: Router, context: ClusterContext) -> dict[str, Any]:
    pod = router.pod
    container = _container(router, context)
    upload = uploader(router, context, {name: container[name] for name in _OF_ALL_CONTAINERS})
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": router.drain_timeout_s + GRACE_S,
        "securityContext": {
            "runAsNonRoot": True,
            **({} if pod.platform_user else {"runAsUser": USER_ID, "runAsGroup": USER_ID, "fsGroup": USER_ID}),
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [*_volumes(router.ref.name, reads_several(router, context)), volume(router, context)],
        "topologySpreadConstraints": [dict(item) for item in pod.spread] or _spread(router.ref.name),
    }
    chosen = {
        "affinity": dict(pod.affinity),
        "tolerations": [dict(item) for item in pod.tolerations],
        "nodeSelector": dict(pod.node_selector),
        "priorityClassName": pod.priority_class,
        "serviceAccountName": pod.service_account,
        # The deprecated name: Kubernetes sets it too, and would use its account if the other name were missing.
        "serviceAccount": pod.service_account,
        "imagePullSecrets": [{"name": name} for name in pod.pull_secrets],
        "initContainers": [upload] if upload else [],
    }
    return spec | {name: value for name, value in chosen.items() if value}


def _container(router: Router, context: ClusterContext) -> dict[str, Any]:
    files = (*(SHARED_FILES if reads_several(router, context) else (SHARED_FILE,)), "$(POD_NAME).json")
    container: dict[str, Any] = {
        "name": "router",
        "image": image_of(router, context),
        "imagePullPolicy": router.pod.image_pull_policy or context.settings.image_pull_policy,
        "command": ["waymesh-router", *(word for name in files for word in ("-c", f"{SEED_FOLDER}/{name}"))],
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [_port("mesh", MESH_PORT), _port("management", MANAGEMENT_PORT), _port("http", HTTP_PORT)],
        "lifecycle": {"preStop": {"exec": {"command": ["waymesh-router", "--drain"]}}},
        "startupProbe": _probe("/healthz", period_s=1, failures=60),
        "livenessProbe": _probe("/healthz", period_s=10, failures=3),
        "readinessProbe": _probe("/readyz", _readiness_period_s(router, context), failures=2),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        **_termination_message(router, context),
        "volumeMounts": [
            {"name": "seed", "mountPath": SEED_FOLDER, "readOnly": True},
            {"name": "tls", "mountPath": CERTIFICATES, "readOnly": True},
            {"name": "credentials", "mountPath": CREDENTIALS, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": VOLUME, "mountPath": TELEMETRY_FOLDER},
        ],
    }
    resources = dict(router.pod.resources) or _default_resources(router, context)
    return container | ({"resources": resources} if resources else {})


def _readiness_period_s(router: Router, context: ClusterContext) -> int:
    """Return the time between two questions whether a router accepts clients. A router that drains leaves the Services
    of clients after two of them, whether the operator runs or not."""
    live = (_same_image(router, context) or {}).get("readinessProbe") or {}
    return int(live.get("periodSeconds", READINESS_S))


def _termination_message(router: Router, context: ClusterContext) -> dict[str, str]:
    """Make Kubernetes keep the last lines that a failing router writes, so that the status can show them."""
    live = _same_image(router, context)
    if live is not None and live.get("terminationMessagePolicy") != LAST_LINES:
        return {}
    return {"terminationMessagePolicy": LAST_LINES}


def _default_resources(router: Router, context: ClusterContext) -> dict[str, Any]:
    """Return small requests: without any, the kubelet would evict the pods first when memory of the node is short."""
    live = _same_image(router, context)
    if live is not None and (live.get("resources") or {}).get("requests") != REQUESTS:
        return {}
    return {"requests": dict(REQUESTS)}


def _same_image(router: Router, context: ClusterContext) -> Mapping[str, Any] | None:
    """Return the live container of the routers if their image stays: what a newer operator sets is then left out,
    because an upgrade of the operator restarts no router. They get it with their next image."""
    live = named(context.pod_now.get("containers"), "router")
    return live if live is not None and live.get("image") == image_of(router, context) else None


def reads_several(router: Router, context: ClusterContext) -> bool:
    """Whether the pods read seeds of several ConfigMaps. Those that began with one do so with their next image."""
    live = _same_image(router, context)
    return live is None or f"{SEED_FOLDER}/{SHARED_FILES[-1]}" in (live.get("command") or ())


def _volumes(name: str, several: bool) -> list[dict[str, Any]]:
    """Mount folders, never single files: only mounts of whole folders are updated while the pod runs. `several`: the
    ConfigMaps after the first one exist only while they are needed."""
    first, *others = [seed_name(name, number) for number in range(1, len(SHARED_FILES) + 1)]
    sources = [{"configMap": {"name": first}}, *({"configMap": {"name": n, "optional": True}} for n in others)]
    return [
        {"name": "seed", **({"projected": {"sources": sources}} if several else {"configMap": {"name": first}})},
        *(
            {"name": volume, "secret": {"secretName": f"{name}-{volume}", "defaultMode": SECRET_MODE}}
            for volume in SECRET_VOLUMES
        ),
        {"name": "tmp", "emptyDir": {}},
    ]


def _spread(name: str) -> list[dict[str, Any]]:
    """Return constraints that spread routers over zones and nodes."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": selector_of(name)},
        }
        for key in SPREAD_KEYS
    ]


def _port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _probe(path: str, period_s: int, failures: int) -> dict[str, Any]:
    get = {"path": path, "port": "http"}
    return {"httpGet": get, "periodSeconds": period_s, "timeoutSeconds": 5, "failureThreshold": failures}


VOLUME = "telemetry"


def volume(router: Router, context: ClusterContext) -> Mapping[str, Any]:
    """Return the volume of the exported files.

    A pod has it even while nothing is exported, so that the export can be switched on and off without a restart.
    """
    if not judge_telemetry(router, context.secrets, context.claims).good:
        return named(context.pod_now.get("volumes"), VOLUME) or _empty()
    if router.telemetry.target == "Claim":
        return {"name": VOLUME, "persistentVolumeClaim": {"claimName": router.telemetry.claim}}
    return _empty()


def uploader(router: Router, context: ClusterContext, base: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the container that uploads the files to S3, if that is the target; `base`: fields shared with the
    router's.

    It starts before the router and ends after it, so that the last files are uploaded too.
    """
    if not judge_telemetry(router, context.secrets, context.claims).good:
        return named(context.pod_now.get("initContainers"), UPLOADER)
    s3 = router.telemetry.s3
    if s3 is None:
        return None
    return {
        **base,
        "name": UPLOADER,
        "restartPolicy": "Always",
        "command": ["waymesh-upload", *_words(s3)],
        "env": [_from_secret(key, s3.secret) for key in S3_KEYS] if s3.secret else [],
        "resources": {"requests": {"cpu": "10m", "memory": "48Mi"}, "limits": {"memory": "192Mi"}},
        "volumeMounts": [{"name": VOLUME, "mountPath": TELEMETRY_FOLDER}, {"name": "tmp", "mountPath": "/tmp"}],
    }


def _words(s3: S3) -> list[str]:
    target = "/".join(part for part in (f"s3://{s3.bucket}", s3.prefix.strip("/")) if part)
    options = {"--spool": TELEMETRY_FOLDER, "--target": target, "--endpoint": s3.endpoint, "--region": s3.region}
    return [word for name, value in options.items() if value for word in (name, value)]


def _from_secret(key: str, secret: str) -> dict[str, Any]:
    """Return an optional reference: deleting the Secret later must not prevent the router in the pod from starting."""
    return {"name": key, "valueFrom": {"secretKeyRef": {"name": secret, "key": key, "optional": True}}}


def _empty() -> Mapping[str, Any]:
    return {"name": VOLUME, "emptyDir": {}}
