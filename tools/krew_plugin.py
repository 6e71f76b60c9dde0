"""Makes the kubectl plugin for krew in dist/: an archive, and the manifest that describes it.

    python tools/krew_plugin.py WHEEL [--url URL]

The archive is the same for all platforms: a script, and the wheel without compiled modules.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "tools/plugin/kubectl-waymesh"
CAVEATS = (
    "The first use installs Python packages into ~/.cache/waymesh/plugin. "
    "It needs Python 3.11 or later and a package index."
)
DESCRIPTION = (
    "Shows the topology, state and traffic of Waymesh meshes of AMQP 1.0 routers, explains what a resource waits for, "
    "drains routers, joins meshes by tokens, checks access policies, and fetches reports."
)


def archive(wheel: Path) -> bytes:
    """Return the archive; its bytes depend only on the script and the wheel."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as compressed, tarfile.open(None, "w", compressed) as tar:
        for path, mode in ((SCRIPT, 0o755), (wheel, 0o644), (ROOT / "LICENSE", 0o644)):
            data = path.read_bytes()
            member = tarfile.TarInfo(path.name)
            member.size, member.mode = len(data), mode
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def manifest(version: str, url: str, digest: str) -> dict[str, Any]:
    """The manifest. Source: the developer guide of krew, "Writing a plugin manifest"."""
    platforms = {"matchExpressions": [{"key": "os", "operator": "In", "values": ["linux", "darwin"]}]}
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "waymesh"},
        "spec": {
            "version": f"v{version}",
            "shortDescription": "Look after meshes of AMQP 1.0 routers",
            "description": DESCRIPTION,
            "caveats": CAVEATS,
            "platforms": [{"selector": platforms, "uri": url, "sha256": digest, "bin": SCRIPT.name}],
        },
    }


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description="Makes the kubectl plugin for krew.")
    parser.add_argument("wheel", type=Path, help="the wheel, without compiled modules")
    parser.add_argument("--url", help="where the archive will be; default: its file name, for krew's --archive")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder to write to")
    options = parser.parse_args()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    packed = archive(options.wheel)
    file = options.out / f"kubectl-waymesh-v{version}.tar.gz"
    described = options.out / "waymesh.krew.yaml"
    options.out.mkdir(parents=True, exist_ok=True)
    file.write_bytes(packed)
    made = manifest(version, options.url or file.name, hashlib.sha256(packed).hexdigest())
    described.write_text(yaml.safe_dump(made, sort_keys=False, width=120), encoding="utf-8")
    print(file)
    print(described)


if __name__ == "__main__":
    main()
