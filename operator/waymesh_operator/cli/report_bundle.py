"""`waymesh report-bundle`: one archive for somebody who helps: resources with status, pods, events, logs, and what the
routers say. Secrets are never read; what remains of passwords, tokens and names of users is replaced."""

from __future__ import annotations

import asyncio
import io
import json
import secrets
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import kubernetes.client
import kubernetes.config
import typer
from kubernetes.client.exceptions import ApiException

from waymesh_client.errors import ClientError, ManagementError
from waymesh_client.management import ManagementClient
from waymesh_operator.errors import WaymeshError
from waymesh_operator.kube import RESOURCES, DynamicKube, find_cluster, kind_of
from waymesh_operator.places.local.mesh import LocalMesh
from waymesh_operator.redaction import Redaction

from .cluster import Found, Object, Where, bus, list_objects
from .doctor import Facts, examine, look

ENTITIES: Final = (
    "router", "router.node", "listener", "connector", "connection", "router.link", "router.address",
    "router.config.address", "autoLink", "linkRoute", "exchange", "binding", "policy", "vhost", "vhostStats",
    "sslProfile", "log", "logStats",
)  # fmt: skip
OBJECTS: Final = ("StatefulSet", "Service", "PodDisruptionBudget", "NetworkPolicy", "Pod")
MODE: Final = 0o600
ROWS: Final = 5000
"""Rows of one entity type of one router, at most: routers may have very many links and addresses."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the archive before redaction: JSON-like data, or text such as a log."""

    path: str
    content: Any


def run_report_bundle(parts: Iterator[Part], output: Path, now: datetime) -> int:
    """Write the archive, and say what is in it. Returns 1 if some of it could not be read. Raises WaymeshError."""
    redaction = Redaction(secrets.token_bytes(16))
    # Data first: it tells the names of users, which then are replaced in the logs.
    data: list[Part] = []
    texts: list[Part] = []
    problems: list[str] = []
    for part in parts:
        typer.echo(f"reading {part.path}", err=True)
        (texts if isinstance(part.content, str) else data).append(part)
        if part.path.endswith(".error.txt"):
            problems.append(part.path)
    files = {part.path: json.dumps(redaction.data(part.content), indent=1, default=str) for part in data}
    # Once more, as a name may have come after a text that has it.
    files = {path: redaction.text(text) for path, text in files.items()}
    files |= {part.path: redaction.text(part.content) for part in texts}
    try:
        write_archive(output, files, now)
    except OSError as error:
        raise WaymeshError(f"{output}: {error.strerror or error}") from None
    typer.echo(f"{output}: {len(files)} files. Passwords, tokens, keys and names of users are replaced: look yourself")
    for path in problems:
        typer.echo(f"not read: {path}", err=True)
    return 1 if problems else 0


def write_archive(output: Path, files: Mapping[str, str], now: datetime) -> None:
    """Write a tar.gz that only its owner can read. Raises OSError."""
    top = f"waymesh-report-{now:%Y%m%d-%H%M%S}"
    output.touch(MODE)
    output.chmod(MODE)
    with tarfile.open(output, "w:gz") as archive:
        for path, text in sorted(files.items()):
            content = text.encode()
            entry = tarfile.TarInfo(f"{top}/{path}")
            entry.size, entry.mtime, entry.mode = len(content), int(now.timestamp()), MODE
            archive.addfile(entry, io.BytesIO(content))


def of_router(name: str, url: str) -> Iterator[Part]:
    """What a router says about itself."""
    try:
        with ManagementClient(url) as client:
            for entity in ENTITIES:
                try:
                    rows = client.query(entity, limit=ROWS)
                except ManagementError as error:
                    rows = [{"error": str(error)}]
                yield Part(f"routers/{name}/{entity}.json", list(rows))
            yield Part(f"routers/{name}/recent-log.json", client.node_operation("GET-LOG", limit=1000))
    except (ClientError, OSError) as error:
        yield Part(f"routers/{name}.error.txt", f"{error}\n")


def of_local(meshes: Sequence[LocalMesh], log_lines: int) -> Iterator[Part]:
    """Meshes that `waymesh up` runs: configurations, logs, and what their routers say."""
    for mesh in meshes:
        for name in sorted(mesh.routers):
            yield _file(f"configuration/{name}", ".json", mesh.folder.config(name), json.loads)
            yield from of_router(name, mesh.folder.management(name))
            yield _file(f"logs/{name}", ".log", mesh.folder.log(name), lambda text: _tail(text, log_lines))


def _file(path: str, suffix: str, file: Path, content: Callable[[str], Any]) -> Part:
    """A file of a router. Routers may end, and files be removed, while they are read."""
    try:
        return Part(f"{path}{suffix}", content(file.read_text(encoding="utf-8", errors="replace")))
    except (OSError, ValueError) as error:
        return Part(f"{path}.error.txt", f"{error}\n")


def _tail(text: str, lines: int) -> str:
    return "".join(text.splitlines(keepends=True)[-lines:])


def of_cluster(where: Where, log_lines: int) -> Iterator[Part]:
    """The meshes of a namespace in a cluster, and the operator's view of them."""
    kinds = (*RESOURCES, *map(kind_of, OBJECTS))
    found = list_objects(where, kinds)
    for kind, items in found.objects.items():
        folder = "resources" if kind not in OBJECTS else "objects"
        yield Part(f"{folder}/{kind}.json", [_shown(item) for item in items])
    facts = asyncio.run(_facts(where, found.namespace))
    yield Part("doctor.json", [asdict(one) for one in examine(facts)])
    yield from _logs_and_events(where, found, [*facts.operators, *found.objects["Pod"]], log_lines)
    for pod in found.objects["Pod"]:
        name = pod["metadata"]["name"]
        try:
            with bus(replace(where, namespace=found.namespace), name) as (_, url):
                yield from of_router(name, url)
        except WaymeshError as error:
            yield Part(f"routers/{name}.error.txt", f"{error}\n")


def _shown(item: Mapping[str, Any]) -> dict[str, Any]:
    """An object without what only the API server needs."""
    metadata = {name: value for name, value in item["metadata"].items() if name != "managedFields"}
    annotations = {
        name: value for name, value in (metadata.get("annotations") or {}).items() if "last-applied" not in name
    }
    return {**item, "metadata": metadata | ({"annotations": annotations} if annotations else {})}


async def _facts(where: Where, namespace: str) -> Facts:
    cluster = await find_cluster(context=where.context)
    kube = DynamicKube(cluster.configuration)
    try:
        return await look(kube, kube.may, namespace, datetime.now(UTC))
    finally:
        await kube.close()


def _logs_and_events(where: Where, found: Found, pods: Sequence[Object], lines: int) -> Iterator[Part]:
    api = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(context=where.context))
    try:
        events = api.list_namespaced_event(found.namespace).items
        yield Part("events.json", [_event(event) for event in events])
    except ApiException as error:
        yield Part("events.error.txt", f"{error.reason}\n")
    for pod in pods:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        try:
            yield Part(f"logs/{namespace}/{name}.log", api.read_namespaced_pod_log(name, namespace, tail_lines=lines))
        except ApiException as error:
            yield Part(f"logs/{namespace}/{name}.error.txt", f"{error.reason}\n")


def _event(event: Any) -> dict[str, Any]:
    about = event.involved_object
    return {
        "time": str(event.last_timestamp or event.event_time),
        "about": f"{about.kind}/{about.name}",
        "type": event.type,
        "reason": event.reason,
        "count": event.count,
        "message": event.message,
    }
