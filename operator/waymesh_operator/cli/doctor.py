"""`waymesh doctor`: is this cluster able to run meshes, and what is wrong with those that it has?

`look` reads, `examine` decides: it knows only what `look` found, and names for each finding what to do.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from rich.text import Text

from waymesh_operator.errors import KubeError
from waymesh_operator.kube import GROUP, LEASE, RESOURCES, DynamicKube, Kind, KubeClient, find_cluster, kind_of
from waymesh_operator.resources.crds import load_crds

from .cluster import Object, Where, condition
from .terminal import add_row, make_console, titled_table

May = Callable[[str, str, str, str, str], Awaitable[bool]]
"""Whether a user may do something: user, verb, group, resource, namespace (empty: in all). Raises KubeError."""
GOOD, WARNING, BAD, UNKNOWN = "ok", "warning", "problem", "not checked"
DEFINITION: Final = Kind("CustomResourceDefinition", "apiextensions.k8s.io", "v1", "customresourcedefinitions")
OPERATOR: Final = "app.kubernetes.io/name=waymesh-operator"
ROUTER: Final = "app.kubernetes.io/name=waymesh-router"
LEASE_NAME: Final = "waymesh-operator"
INSTALL: Final = "helm upgrade --install waymesh helm/waymesh --namespace waymesh-system --create-namespace --wait"
_STYLE: Final = {GOOD: "green", WARNING: "yellow", BAD: "red", UNKNOWN: "yellow"}
_NEEDED: Final = (("watch", GROUP, "routers"), ("patch", GROUP, "routers/status"), ("patch", "apps", "statefulsets"))
"""Some of what the operator does: (verb, group, resource). All of its rules come with the same roles."""
_WAITING: Final = {
    "ImagePullBackOff": "push the image; imageRegistry, imagePullSecrets of the chart; for routers spec.pod.image",
    "CrashLoopBackOff": "read its last words: kubectl logs --previous",
    "CreateContainerConfigError": "a Secret or ConfigMap that the pod names is missing",
}
_SAME_AS: Final = dict.fromkeys(("ErrImagePull", "InvalidImageName", "ErrImageNeverPull"), "ImagePullBackOff")
_WARNINGS: Final = (
    "CertificateExpiring", "EdgesWithoutGroup", "MemoryFull", "MemoryTooSmall", "Unprotected", "OtherOperator",
)  # fmt: skip
_ALARMS: Final = ("Stalled", *_WARNINGS, "Paused")
"""Conditions that tell of something to know while they are true."""
_CAUSES: Final = ("Accepted", "ResolvedRefs", "Ready")
"""Conditions that say, while they are false, why a resource is not ready; others, such as Stalled, are good then."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; `do`: what to do about it."""

    check: str
    state: str
    text: str
    do: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read. `denied`: what could not be read, and why; its lists are empty."""

    now: datetime
    # Fields that are missing in each definition of the cluster; None: the definition is missing.
    definitions: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    leases: Sequence[Object] = ()
    operators: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    resources: Sequence[Object] = ()
    # What the ServiceAccount of the operator may not do.
    forbidden: Sequence[str] = ()
    denied: Mapping[str, str] = field(default_factory=dict)


def run_doctor(where: Where, output_json: bool, no_color: bool) -> int:
    """Print the findings. Returns 1 if there is a problem, else 0. Raises WaymeshError without a cluster."""
    found = asyncio.run(_findings(where))
    if output_json:
        print(json.dumps([asdict(one) for one in found], indent=2))
    else:
        table = titled_table("Checks")
        for heading in ("Check", "State", "Finding", "What to do"):
            table.add_column(heading, overflow="fold")
        for one in found:
            add_row(table, one.check, Text(one.state, _STYLE[one.state]), one.text, one.do)
        make_console(no_color).print(table)
    return 1 if any(one.state == BAD for one in found) else 0


async def _findings(where: Where) -> list[Finding]:
    cluster = await find_cluster(context=where.context)
    kube = DynamicKube(cluster.configuration)
    try:
        return list(examine(await look(kube, kube.may, where.namespace, datetime.now(UTC))))
    finally:
        await kube.close()


# --- reading ---


async def look(kube: KubeClient, may: May, namespace: str | None, now: datetime) -> Facts:
    """Read what `examine` needs; the resources and pods of one namespace, or of all."""
    denied: dict[str, str] = {}

    async def listed(kind: Kind, scope: str | None, selector: str = "") -> list[dict[str, Any]]:
        try:
            return await kube.list(kind, scope, selector)
        except KubeError as error:
            if not error.missing:
                denied[kind.plural] = str(error)
            return []

    pod = kind_of("Pod")
    definitions = await _definitions(kube, denied)
    operators = await listed(pod, None, OPERATOR)
    resources = [item for kind in RESOURCES for item in await listed(kind, namespace)]
    return Facts(
        now,
        definitions,
        [lease for lease in await listed(LEASE, None) if lease["metadata"]["name"] == LEASE_NAME],
        operators,
        await listed(pod, namespace, ROUTER),
        resources,
        await _forbidden(may, operators, denied),
        denied,
    )


async def _definitions(kube: KubeClient, denied: dict[str, str]) -> dict[str, frozenset[str] | None]:
    found: dict[str, frozenset[str] | None] = {}
    ours = load_crds()
    for kind in RESOURCES:
        try:
            live = await kube.document(DEFINITION.path(None, f"{kind.plural}.{GROUP}"))
        except KubeError as error:
            if error.missing:
                found[kind.kind] = None
            else:
                denied[DEFINITION.plural] = str(error)
            continue
        stored = next(version for version in live["spec"]["versions"] if version["storage"])
        there = frozenset(_fields(stored["schema"]["openAPIV3Schema"]))
        found[kind.kind] = frozenset(_fields(ours[kind.kind].schema)) - there
    return found


def _fields(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The paths of all fields in a schema."""
    for name, inner in (schema.get("properties") or {}).items():
        here = f"{path}.{name}" if path else name
        yield here
        yield from _fields(inner, here)
    if isinstance(schema.get("items"), Mapping):
        yield from _fields(schema["items"], f"{path}[]")


async def _forbidden(may: May, operators: Iterable[Object], denied: dict[str, str]) -> list[str]:
    users = {(_user(pod), scope) for pod in operators for scope in watched(pod) or [""]}
    found = []
    for user, scope in sorted(users):
        for verb, group, resource in _NEEDED:
            try:
                if not await may(user, verb, group, resource, scope):
                    place = f" in namespace {scope}" if scope else ""
                    found.append(f"{user} may not {verb} {resource}.{group}{place}")
            except KubeError as error:
                denied["subjectaccessreviews"] = str(error)
    return found


def _user(pod: Object) -> str:
    """The user that a pod is for the API server."""
    account = pod["spec"].get("serviceAccountName", "default")
    return f"system:serviceaccount:{pod['metadata']['namespace']}:{account}"


def watched(operator: Object) -> frozenset[str]:
    """The namespaces that a pod of an operator watches; empty: all."""
    words = [word for container in operator["spec"].get("containers") or () for word in container.get("args") or ()]
    return frozenset(word.partition("=")[2] for word in words if word.startswith("--namespace="))


# --- deciding ---


def examine(facts: Facts) -> Iterator[Finding]:
    """The result of each check, problems with what to do about them."""
    yield from _of_definitions(facts)
    yield from _of_operator(facts)
    yield from _of_rights(facts)
    yield from _of_pods(facts)
    yield from _of_resources(facts)
    for what, why in facts.denied.items():
        yield Finding(what, UNKNOWN, why, "run this with the rights of an administrator")


def _of_definitions(facts: Facts) -> Iterator[Finding]:
    missing = [kind for kind, lacking in facts.definitions.items() if lacking is None]
    if missing:
        yield Finding("definitions", BAD, f"missing: {', '.join(missing)}", f"{INSTALL}, or kubectl apply -f crds/")
    for kind, lacking in facts.definitions.items():
        if lacking:
            shown = ", ".join(sorted(lacking)[:3]) + (" …" if len(lacking) > 3 else "")
            text = f"{kind} is older than this command: {len(lacking)} fields are missing ({shown})"
            yield Finding("definitions", WARNING, text, "helm upgrade replaces them (crds.upgrade)")
    if facts.definitions and not missing and not any(facts.definitions.values()):
        yield Finding("definitions", GOOD, f"all {len(facts.definitions)}, as this command knows them")


def _of_operator(facts: Facts) -> Iterator[Finding]:
    if not facts.operators and "pods" not in facts.denied:
        yield Finding("operator", BAD, "no pod of an operator", INSTALL)
    ready = [pod for pod in facts.operators if condition(pod, "Ready")[0] == "True"]
    if facts.operators and not ready:
        yield Finding("operator", BAD, "no pod of the operator is ready", "see the pods below, and its log")
    live = [lease for lease in facts.leases if _renewed(lease, facts.now)]
    for lease in facts.leases:
        spec, place = lease["spec"], lease["metadata"]["namespace"]
        if lease in live:
            yield Finding("operator", GOOD, f"{spec.get('holderIdentity')} in namespace {place} is the leader")
        else:
            text = f"the Lease in namespace {place} was last renewed {spec.get('renewTime', 'never')}"
            yield Finding("operator", WARNING if live else BAD, text, "no operator is at work there: read its log")
    if ready and not facts.leases and "leases" not in facts.denied:
        yield Finding("operator", BAD, "no Lease: no operator has become the leader", "read the log of the operator")
    shared = _watched_twice(facts.operators, {lease["metadata"]["namespace"] for lease in live})
    if shared:
        text = f"operators in {shared} watch the same namespaces: they change the same meshes in turns"
        yield Finding("operator", BAD, text, "keep one, or give each its namespaces (watch.namespaces)")


def _watched_twice(operators: Iterable[Object], places: set[str]) -> str:
    """Two of these namespaces whose operators watch a namespace in common, as text; empty: there are none."""
    scopes = {pod["metadata"]["namespace"]: watched(pod) for pod in operators if pod["metadata"]["namespace"] in places}
    for one, other in itertools.combinations(sorted(scopes), 2):
        if not scopes[one] or not scopes[other] or scopes[one] & scopes[other]:
            return f"{one} and {other}"
    return ""


def _renewed(lease: Object, now: datetime) -> bool:
    spec = lease["spec"]
    try:
        at = datetime.fromisoformat(spec["renewTime"])
    except (KeyError, ValueError):
        return False
    return bool(spec.get("holderIdentity")) and (now - at).total_seconds() < 2 * spec.get("leaseDurationSeconds", 15)


def _of_rights(facts: Facts) -> Iterator[Finding]:
    for text in facts.forbidden:
        yield Finding("rights", BAD, text, "the chart makes the roles (rbac); in watch.namespaces, too")
    if facts.operators and not facts.forbidden and "subjectaccessreviews" not in facts.denied:
        yield Finding("rights", GOOD, "the operator may read resources and keep routers")


def _of_pods(facts: Facts) -> Iterator[Finding]:
    troubled = 0
    for pod in (*facts.operators, *facts.pods):
        name = f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"
        status = pod.get("status") or {}
        for container in status.get("containerStatuses") or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            reason = waiting.get("reason", "")
            advice = _WAITING.get(_SAME_AS.get(reason, reason))
            if advice:
                troubled += 1
                yield Finding("pods", BAD, f"{name}: {reason}: {waiting.get('message') or container['image']}", advice)
        scheduled: Object = next((one for one in status.get("conditions") or () if one["type"] == "PodScheduled"), {})
        if scheduled.get("reason") == "Unschedulable":
            troubled += 1
            yield Finding("pods", BAD, f"{name}: {scheduled.get('message')}", "make room, or change spec.pod")
    if not troubled and (facts.operators or facts.pods):
        yield Finding("pods", GOOD, f"{len(facts.operators)} of operators, {len(facts.pods)} of routers")


def _of_resources(facts: Facts) -> Iterator[Finding]:
    ready = 0
    for item in facts.resources:
        metadata = item["metadata"]
        name = f"{item['kind']} {metadata['namespace']}/{metadata['name']}"
        conditions = (item.get("status") or {}).get("conditions") or ()
        said = {one["type"]: one for one in conditions}
        state = said.get("Ready", {}).get("status")
        ready += state == "True"
        if state is None:
            yield Finding("resources", BAD, f"{name} has no status", "no operator watches its namespace")
        elif state != "True":
            causes = (one for one in conditions if one["type"] in _CAUSES and one["status"] == "False")
            first = next((one for one in causes if one.get("message")), said["Ready"])
            text = f"{name}: {first['reason']}: {first.get('message', '')}"
            yield Finding("resources", BAD, text, "docs/troubleshooting.md says what to do, by reason")
        for alarm in _ALARMS:
            if said.get(alarm, {}).get("status") == "True":
                yield Finding("resources", WARNING, f"{name}: {alarm}: {said[alarm].get('message', '')}")
    if facts.resources and ready == len(facts.resources):
        yield Finding("resources", GOOD, f"all {ready} are ready")
    if not facts.resources:
        yield Finding("resources", GOOD, "none yet")
