"""The Secrets and the seed ConfigMap of a Router: what its pods mount as folders."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from waymesh_operator.certificates import MeshTls
from waymesh_operator.entities import USERS_NAME, credential_file
from waymesh_operator.specs import Broker, Router

from .context import SecretData
from .objects import Manifest, make
from .seeds import SHARED_FILE

LIMIT_BYTES = 1 << 20
"""What the API server takes as contents of a ConfigMap or Secret."""
_STORED_KEYS = re.compile(r"\{SCRAM-SHA-(1|256|512)\}\d+,[^,\s]+,[^,\s]+,[^,\s]+")


def seed_config_map(router: Router, shared: bytes, own: Mapping[str, str]) -> Manifest:
    """What the pods boot with: `own` by router id."""
    packed = base64.b64encode(shared).decode()
    data = {f"{name}.json": text for name, text in own.items()}
    return make(router, "v1", "ConfigMap", "-seed", {"binaryData": {SHARED_FILE: packed}, "data": data})


def seed_bytes(shared: bytes, own: Mapping[str, str]) -> int:
    """How much of the limit the seeds take."""
    return len(shared) + sum(len(text.encode()) for text in own.values())


def tls_secrets(router: Router, tls: MeshTls) -> list[Manifest]:
    """The authority, the routers' certificate, and the operator's. The authority comes first: it holds the state."""
    return [
        _secret(router, name.removeprefix(router.ref.name), data) for name, data in tls.secrets(router.ref.name).items()
    ]


def credentials_secret(router: Router, data: SecretData) -> Manifest:
    """Users of the listeners, and what brokers ask for."""
    return _secret(router, "-credentials", data)


def broker_files(broker: Broker, auth: SecretData, authorities: SecretData) -> dict[str, bytes]:
    """The files that a Broker's connector refers to, from the Secrets that the Broker names."""
    found = {}
    wanted = {"EXTERNAL": ("tls.crt", "tls.key")}.get(broker.mechanism, ("password",))
    for part in wanted:
        if part in auth:
            found[credential_file(broker.ref, part)] = auth[part]
    if "ca.crt" in authorities:
        found[credential_file(broker.ref, "ca.crt")] = authorities["ca.crt"]
    return found


def users_file(users: SecretData) -> tuple[dict[str, bytes], list[str]]:
    """The user file made of a Secret (user → password or stored keys), and the users that cannot be had."""
    lines, bad = [], []
    for user in sorted(users):
        line = _user_line(user, users[user])
        if line is None:
            bad.append(user)
        else:
            lines.append(line)
    return {f"{USERS_NAME}.users": "".join(f"{line}\n" for line in lines).encode()}, bad


def _user_line(user: str, value: bytes) -> str | None:
    try:
        text = value.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError:
        return None
    if text.splitlines() != [text] or "\0" in text:
        return None
    return f"{user}:{text}" if _STORED_KEYS.fullmatch(text) else f"{user}:{{plain}}{text}"


def _secret(router: Router, suffix: str, data: SecretData) -> Manifest:
    encoded = {name: base64.b64encode(value).decode() for name, value in sorted(data.items())}
    kind = "kubernetes.io/tls" if "tls.crt" in data else "Opaque"  # as cert-manager has it; it can never change
    return make(router, "v1", "Secret", suffix, {"type": kind, "data": encoded})
