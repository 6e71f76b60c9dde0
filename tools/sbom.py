"""The installed Python packages as CycloneDX JSON on stdout: `python tools/sbom.py NAME VERSION [FOLDER]`.

NAME and VERSION are those of the product that contains them; FOLDER is their site-packages (default: those of this
Python). Uses only the standard library, so that it runs where an image is built. The same packages give the same text.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from collections.abc import Iterable
from email.message import Message
from importlib.metadata import Distribution, distributions
from typing import Any

_SHORT = 60
"""Characters of a licence's name; what is longer is its text."""
_CLASSIFIER = "License :: OSI Approved :: "


def bill(name: str, version: str, installed: Iterable[Distribution]) -> dict[str, Any]:
    """The bill of materials of CycloneDX 1.6. Spec: https://cyclonedx.org/docs/1.6/json/"""
    components = {part["purl"]: part for part in map(_component, installed) if part["name"] != name}
    listed = [components[purl] for purl in sorted(components)]
    subject = {"type": "application", "name": name, "version": version, "bom-ref": f"{name}@{version}"}
    digest = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([subject, listed]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{digest}",
        "version": 1,
        "metadata": {"component": subject | {"licenses": [{"expression": "Apache-2.0"}]}},
        "components": listed,
    }


def _component(found: Distribution) -> dict[str, Any]:
    name = re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
    purl = f"pkg:pypi/{name}@{found.version}"
    part = {"type": "library", "name": name, "version": found.version, "purl": purl, "bom-ref": purl}
    return part | {"licenses": licences(found.metadata)}  # type: ignore[arg-type]


def licences(metadata: Message) -> list[dict[str, Any]]:
    """What a package's metadata says, the most exact of three places: expression, name, classifiers. May be empty."""
    if expression := metadata.get("License-Expression"):
        return [{"expression": expression}]
    text = (metadata.get("License") or "").strip()
    if text and len(text) <= _SHORT and "\n" not in text:
        return [{"license": {"name": text}}]
    classifiers = [c for c in metadata.get_all("Classifier") or () if c.startswith(_CLASSIFIER)]
    return [{"license": {"name": classifier.removeprefix(_CLASSIFIER)}} for classifier in classifiers]


def main(name: str, version: str, folder: str | None = None) -> None:
    """Writes the bill."""
    installed = distributions(path=[folder]) if folder else distributions()
    json.dump(bill(name, version, installed), sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
