"""`waymesh link`: tokens by which the routers of other meshes, or edge routers, connect to a mesh in a cluster."""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from waymesh_operator.errors import KubeError, WaymeshError

from .options import Context, Namespace, Output, as_json

if TYPE_CHECKING:
    from waymesh_operator.kube import KubeClient
    from waymesh_operator.tls.link_tokens import LinkAuthority

app = typer.Typer(
    no_args_is_help=True, help="Tokens by which other meshes, or edge routers, connect to a mesh in a cluster."
)
T = TypeVar("T")
MANAGER = "waymesh-link"
"""Field manager of the Secret with the certificate authority."""
MODE = 0o600
"""File mode of a token file."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
Mesh = Annotated[str, typer.Argument(metavar="ROUTER", help="Name of the Router that takes the connections.")]
Listener = Annotated[
    str,
    typer.Option(help="Name of its listener with role inter-router or edge.", show_default="the only one"),
]


@app.command("create-token")
def create_token(
    router: Mesh,
    name: Annotated[str, typer.Option(help="Name of the token; one for each mesh that connects.")],
    listener: Listener = "",
    address: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where the other mesh reaches the listener; repeatable.",
            show_default="the addresses in the Router's status",
        ),
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="Days for which its certificate is valid.")] = 90,
    for_: Annotated[
        str,
        typer.Option(
            "--for", metavar="ROUTER", help="Router of the other mesh: write its RouterLink, too.", show_default="none"
        ),
    ] = "",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="File.", show_default="stdout")
    ] = None,
    context: Context = None,
    namespace: Namespace = None,
) -> None:
    """Write a Secret to apply in the other mesh's cluster, for tokenSecretRef of a RouterLink there.

    It holds addresses, and a certificate with its key. The key is not stored elsewhere: whoever has the token can
    connect until it expires or is revoked. The certificate authority is the Secret that the listener names as
    clientAuthorities; it is created if it does not exist. So is the Secret that it names as certificate, for the
    addresses in the token; if it was created here, its certificate gets further addresses. With --for, the output is
    all that the other mesh needs: the RouterLink, too.
    """
    for option, value in (("--name", name), ("--for", for_ or "x")):
        if not _NAME.fullmatch(value):
            raise typer.BadParameter("use a-z, 0-9 and -, at most 63 characters", param_hint=option)
    where = Where(router, listener, context, namespace)
    wanted = Wanted(name, tuple(address or ()), days, for_)
    issued = _with_listener(where, lambda target: _create(target, wanted))
    if output is None:
        sys.stdout.write(_run(issued))
        return
    try:
        _write(output, issued)
    except OSError as error:
        raise WaymeshError(f"{output}: {error.strerror or error}") from None
    typer.echo(f"token {name} is in {output}; anybody who reads it can connect to {router}")


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine. The import takes a tenth of the start time of every other command."""
    import asyncio

    return asyncio.run(work)


def _write(output: Path, issued: Coroutine[Any, Any, str]) -> None:
    """Write a token to a file readable only by its owner. Open the file first: if that fails, no token is issued."""
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT, MODE)
    except OSError:
        issued.close()
        raise
    with open(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, MODE)
        text = _run(issued)
        file.truncate(0)
        file.write(text)


@app.command()
def revoke(
    router: Mesh,
    name: Annotated[str, typer.Option(help="Name of the token.")],
    listener: Listener = "",
    context: Context = None,
    namespace: Namespace = None,
) -> None:
    """Revoke a token: within a minute or two, routers close its connections and refuse it."""
    _run(_with_listener(Where(router, listener, context, namespace), lambda target: _revoke(target, name)))
    typer.echo(f"token {name} is revoked")


@app.command("list")
def list_(
    router: Mesh,
    listener: Listener = "",
    output: Output = "table",
    context: Context = None,
    namespace: Namespace = None,
) -> None:
    """List the tokens of a listener."""
    import json

    from rich.table import Table

    from .terminal import add_row, make_console

    json_ = as_json(output)
    rows = _run(_with_listener(Where(router, listener, context, namespace), _rows))
    if json_:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("Token", "State", "Expires"):
        table.add_column(heading)
    for row in rows:
        add_row(table, row["name"], row["state"], row["expires"])
    make_console(no_color=False).print(table if rows else f"{router} has issued no token")


@dataclass(frozen=True, slots=True)
class Where:
    """The listener in a cluster as the user names it; None: the kubeconfig's default."""

    router: str
    listener: str
    context: str | None
    namespace: str | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """A token as the user asks for it: `router` is that of the other mesh; empty: no RouterLink."""

    name: str
    addresses: tuple[str, ...]
    days: int
    router: str = ""


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """The data of a Secret, and its resourceVersion."""

    data: Mapping[str, bytes]
    version: str


@dataclass(frozen=True, slots=True)
class ListenerCertificate:
    """The Secret with the certificate that the listener shows; `changed`: it must be written."""

    secret: str
    data: Mapping[str, bytes]
    before: StoredSecret | None
    changed: bool = False


@dataclass(frozen=True, slots=True)
class LinkListener:
    """A listener for other routers, as the API server has it; `status` is its row in the Router's status."""

    kube: KubeClient
    namespace: str
    router: str
    listener: Mapping[str, Any]
    status: Mapping[str, Any]
    now: datetime

    @property
    def secret(self) -> str:
        """Name of the Secret with its authority."""
        return str(self.listener["clientAuthorities"]["secretRef"]["name"])

    async def read(self, secret: str) -> StoredSecret | None:
        """A Secret; None if it does not exist."""
        from waymesh_operator.kube import SECRET

        try:
            found = await self.kube.get(SECRET, self.namespace, secret)
        except KubeError as error:
            if error.missing:
                return None
            raise
        data = {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
        return StoredSecret(data, found["metadata"]["resourceVersion"])

    async def keep(self, authority: LinkAuthority, before: StoredSecret | None) -> None:
        """Write the Secret with the certificate authority. Raises KubeError if it has changed since `before`."""
        await self.write(self.secret, "Opaque", authority.data(self.now), before)

    async def write(
        self, name: str, type_: str, data: Mapping[str, bytes], before: StoredSecret | None
    ) -> None:
        """Write a Secret. Raises KubeError if it has changed since `before`."""
        import secrets

        coded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        metadata = {"name": name, "namespace": self.namespace}
        metadata |= {"resourceVersion": before.version} if before else {}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": type_, "data": coded}
        # If two runs create the Secret at the same time, the first wins, because each has a different field manager.
        manager = MANAGER if before else f"{MANAGER}-{secrets.token_hex(4)}"
        await self.kube.apply(body, manager=manager, force=before is not None)


async def _with_listener(where: Where, work: Callable[[LinkListener], Awaitable[T]]) -> T:
    from waymesh_operator.kube import DynamicKube, find_cluster, kind_of

    cluster = await find_cluster(context=where.context)
    namespace = where.namespace or cluster.namespace
    kube = DynamicKube(cluster.configuration)
    try:
        router = await kube.get(kind_of("Router"), namespace, where.router)
        return await work(link_listener(kube, router, where.listener, datetime.now(UTC)))
    except KubeError as error:
        hint = f"there is no Router {where.router} in namespace {namespace}" if error.missing else str(error)
        raise WaymeshError(hint) from None
    finally:
        await kube.close()


def link_listener(kube: KubeClient, router: Mapping[str, Any], wanted: str, now: datetime) -> LinkListener:
    """Return the listener with this name, or the only one for other routers. Raises WaymeshError."""
    from waymesh_operator.resources.router_link import ROLES

    name, namespace = router["metadata"]["name"], router["metadata"]["namespace"]
    listeners = [item for item in router["spec"].get("listeners", ()) if item.get("role") in ROLES]
    chosen = [item for item in listeners if wanted in ("", item["name"])]
    if len(chosen) != 1:
        known = ", ".join(item["name"] for item in listeners) or "none"
        raise WaymeshError(f"choose one with --listener: listeners of {name} for other routers are: {known}")
    (listener,) = chosen
    if not (listener.get("clientAuthorities") or {}).get("revocation"):
        raise WaymeshError(
            f"listener {listener['name']}: tokens could not be revoked: set revocation: true in clientAuthorities"
        )
    rows = (router.get("status") or {}).get("listeners") or ()
    status: Mapping[str, Any] = next((row for row in rows if row["name"] == listener["name"]), {})
    return LinkListener(kube, namespace, name, listener, status, now)


async def _create(target: LinkListener, wanted: Wanted) -> str:
    import yaml

    from waymesh_operator.resources.router_link import token_endpoints
    from waymesh_operator.tls.link_tokens import new_link_authority, read_link_authority

    addresses = wanted.addresses or tuple(target.status.get("addresses") or ())
    if not addresses:
        listener = target.listener["name"]
        raise WaymeshError(f"listener {listener} has no address yet: set expose, or give --address HOST:PORT")
    try:
        hosts = [host for host, _port in token_endpoints("\n".join(addresses))]
    except ValueError as error:
        raise WaymeshError(f"--address: {error}") from None
    stored = await target.read(target.secret)
    if stored:
        former = read_link_authority(target.secret, stored.data)
    else:
        former = new_link_authority(target.router, target.now)
    authority, made = former.issue(wanted.name, target.router, wanted.days, target.now)
    _check_name(target, f"{wanted.name}.{target.router}.link")
    shown = await _listener_certificate(target, authority, hosts)
    await target.keep(authority, stored)
    if shown.changed:
        await target.write(shown.secret, "kubernetes.io/tls", shown.data, shown.before)
    token = {
        "addresses": "".join(f"{address}\n" for address in addresses),
        "ca.crt": shown.data["ca.crt"].decode(),
        "mesh": target.router,
        "role": target.listener["role"],
        "tls.crt": made.certificate.decode(),
        "tls.key": made.key.decode(),
        "expires": authority.issued[-1].expires.isoformat(),
    }
    metadata = {"name": f"{wanted.name}-{target.router}"}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "waymesh.io/link-token"}
    written = [{**body, "stringData": token}]
    if wanted.router:
        written.append(_router_link(wanted.router, target, metadata["name"]))
    return yaml.safe_dump_all(written, sort_keys=False)


def _router_link(router: str, target: LinkListener, secret: str) -> dict[str, Any]:
    spec = {"routerRef": {"name": router}, "role": target.listener["role"], "tokenSecretRef": {"name": secret}}
    metadata = {"name": f"{router}-to-{target.router}"}
    return {"apiVersion": "waymesh.io/v1alpha1", "kind": "RouterLink", "metadata": metadata, "spec": spec}


def _check_name(target: LinkListener, name: str) -> None:
    accepted = target.listener.get("peerNames") or [name]
    if name not in accepted and f"*.{target.router}.link" not in accepted:
        raise WaymeshError(f"peerNames of listener {target.listener['name']} would refuse {name}: add it there first")


async def _listener_certificate(
    target: LinkListener, authority: LinkAuthority, hosts: Sequence[str]
) -> ListenerCertificate:
    """Return the listener's certificate: a new one if its Secret does not exist, or if this authority issued it and it
    lacks a host."""
    from waymesh_operator.tls.certificates import issued_by, subject_names

    own = target.listener.get("certificate")
    secret = own["secretRef"]["name"] if own else f"{target.router}-tls"
    stored = await target.read(secret)
    shown = stored.data.get("tls.crt", b"") if stored else b""
    names = subject_names(shown)
    lacking = [host for host in hosts if host not in names and f"*.{host.partition('.')[2]}" not in names]
    if own and (stored is None or (lacking and issued_by(shown, authority.ca.certificate))):
        made = authority.issue_listener([*hosts, *sorted(names.difference(hosts))], target.now)
        data = {"tls.crt": made.certificate, "tls.key": made.key, "ca.crt": authority.ca.certificate}
        return ListenerCertificate(secret, data, stored, changed=True)
    if stored is None or not stored.data.get("ca.crt"):
        raise WaymeshError(f"Secret {secret} has no ca.crt, the authority of the listener's certificate")
    if lacking and names:
        told = f"the certificate in Secret {secret} has no name {', '.join(lacking)}"
        typer.echo(f"{told}: with verifyHostname, the other mesh does not connect there", err=True)
    return ListenerCertificate(secret, stored.data, stored)


async def _revoke(target: LinkListener, name: str) -> None:
    from waymesh_operator.tls.link_tokens import read_link_authority

    stored = await target.read(target.secret)
    if stored is None:
        raise WaymeshError(f"Secret {target.secret} does not exist: no token was issued")
    await target.keep(read_link_authority(target.secret, stored.data).revoke(name, target.now), stored)


async def _rows(target: LinkListener) -> list[dict[str, str]]:
    from waymesh_operator.tls.link_tokens import read_link_authority

    stored = await target.read(target.secret)
    issued = read_link_authority(target.secret, stored.data).issued if stored else ()
    return [
        {
            "name": one.name,
            "state": "revoked" if one.revoked else "expired" if one.expires <= target.now else "valid",
            "expires": f"{one.expires:%Y-%m-%d %H:%M}Z",
        }
        for one in issued
    ]
