"""The manifests that a local mesh is made of: read, checked, and read again when they change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from waymesh_operator.errors import ManifestError, Problem
from waymesh_operator.resources.crds import Crd, load_crds
from waymesh_operator.resources.manifests import Document, manifest_files, read_files
from waymesh_operator.resources.validation import Checked, check


class ManifestFiles:
    """Files and folders with manifests. The last good state is kept: rules about changes compare with it."""

    def __init__(self, paths: Sequence[Path], crds: Mapping[str, Crd] | None = None) -> None:
        self._paths = paths
        self._crds = load_crds() if crds is None else crds
        self._seen: object = None
        self.checked = Checked()

    def changed(self) -> bool:
        """Whether anything differs on disk from what was last read."""
        return self._fingerprint() != self._seen

    def read(self) -> Checked:
        """Read and check all; raises ManifestError, and then the last good state stays."""
        self._seen = self._fingerprint()
        documents, problems = read_files(self._paths)
        checked = None
        try:
            checked = check(documents, self._crds, self.checked)
        except ManifestError as error:
            problems.extend(error.problems)
        problems.extend(_local_problems(documents))
        if problems or checked is None:
            raise ManifestError(problems)
        self.checked = checked
        return checked

    def _fingerprint(self) -> object:
        files, _ = manifest_files(self._paths)
        return tuple(_stamp(file) for file in files)


def _stamp(file: Path) -> tuple[str, int, int, int]:
    try:
        stat = file.stat()
    except OSError:
        return (str(file), 0, 0, 0)
    return (str(file), stat.st_mtime_ns, stat.st_size, stat.st_ino)


def _local_problems(documents: Iterable[Document]) -> Iterator[Problem]:
    """What is fine in a cluster and cannot be had here: listeners that need certificates or users."""
    for document in documents:
        data = document.data if isinstance(document.data, dict) and document.data.get("kind") == "Router" else {}
        spec = data.get("spec")
        listeners = spec.get("listeners") if isinstance(spec, dict) else None
        for i, listener in enumerate(listeners if isinstance(listeners, list) else ()):
            for name, plain in (("tls", False), ("auth", "none")):
                if isinstance(listener, dict) and listener.get(name, plain) not in (plain, None):
                    line = document.line(("spec", "listeners", i, name))
                    subject = f"Router/{(data.get('metadata') or {}).get('name')}"
                    message = "local mode serves only listeners without TLS and authentication"
                    yield Problem(document.file, line, subject, f"spec.listeners[{i}].{name}", message)
