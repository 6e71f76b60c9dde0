"""OCI images out of folders, without a container engine: the tar format that containerd imports."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the image says about how it is run."""

    command: Sequence[str]
    user: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    def config(self) -> dict[str, Any]:
        """In the words of the OCI image specification."""
        path = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
        return {
            "Cmd": list(self.command),
            "User": self.user,
            "WorkingDir": "/",
            "Env": [f"{name}={value}" for name, value in (path | self.environment).items()],
        }


def write_layer(folder: Path, target: Path) -> None:
    """A tar of the folder's content, the same for the same content: owner root, no times, names in order."""
    partial = target.with_suffix(".partial")
    with tarfile.open(partial, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, arcname=str(path.relative_to(folder)), recursive=False, filter=_anonymous)
    os.replace(partial, target)


def write_image(target: Path, name: str, layers: Sequence[Path], settings: Settings) -> None:
    """An archive with one image of these layers, lowest first."""
    partial = target.with_suffix(".partial")
    with tarfile.open(partial, "w") as tar:
        descriptors = [_add_layer(tar, layer) for layer in layers]
        config = {
            "architecture": ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": settings.config(),
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in descriptors]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _add_json(tar, config, "application/vnd.oci.image.config.v1+json"),
            "layers": descriptors,
        }
        entry = _add_json(tar, manifest, manifest["mediaType"])
        entry["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
        _add(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode())
        _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
    os.replace(partial, target)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def _add(tar: tarfile.TarFile, path: str, data: bytes) -> None:
    member = tarfile.TarInfo(path)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def _add_json(tar: tarfile.TarFile, content: Any, media_type: Any) -> dict[str, Any]:
    data = json.dumps(content, sort_keys=True).encode()
    digest = hashlib.sha256(data).hexdigest()
    _add(tar, f"blobs/sha256/{digest}", data)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}


def _add_layer(tar: tarfile.TarFile, layer: Path) -> dict[str, Any]:
    with open(layer, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.tell()
        file.seek(0)
        member = tarfile.TarInfo(f"blobs/sha256/{digest}")
        member.size = size
        tar.addfile(member, file)
    media_type = "application/vnd.oci.image.layer.v1.tar"
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": size}
