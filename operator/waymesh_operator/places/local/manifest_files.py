"""The manifest files of local mode: read, checked, and watched for changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from waymesh_operator.errors import ManifestError, Problem
from waymesh_operator.resources.crds import Crd, load_crds
from waymesh_operator.resources.manifests import Document, manifest_files, read_files
from waymesh_operator.resources.router import Router, ref_of
from waymesh_operator.resources.validation import Checked, check
from waymesh_operator.router_entities.tokens import UNKNOWN, judge_tokens
from waymesh_operator.router_entities.verdicts import Verdict, judge_listener, judge_users, together


class ManifestFiles:
    """Files and folders with manifests. Keeps the last valid state, with which rules about changes compare."""

    def __init__(self, paths: Sequence[Path], crds: Mapping[str, Crd] | None = None) -> None:
        self._paths = paths
        self._crds = load_crds() if crds is None else crds
        self._seen: object = None
        self.checked = Checked()

    def changed(self) -> bool:
        """Whether the files have changed since they were last read."""
        return self._fingerprint() != self._seen

    def read(self) -> Checked:
        """Read and check all; raises ManifestError and keeps the last valid state then."""
        self._seen = self._fingerprint()
        documents, problems = read_files(self._paths)
        checked = None
        try:
            checked = check(documents, self._crds, self.checked)
        except ManifestError as error:
            problems.extend(error.problems)
        problems.extend(_local_problems(documents))
        if checked is not None:
            problems.extend(_secret_problems(documents, checked))
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


MTLS = "local mode: for auth mtls, set clientAuthorities and add their Secret to the manifests"


def _local_problems(documents: Iterable[Document]) -> Iterator[Problem]:
    """Return problems with settings that need a cluster: mesh certificates, and ServiceAccounts."""
    for document in documents:
        data = document.data if isinstance(document.data, dict) and document.data.get("kind") == "Router" else {}
        for part, i, name, message in _unsupported(data.get("spec")):
            subject = f"Router/{(data.get('metadata') or {}).get('name')}"
            field = f"spec.{part}.{name}" if part == "console" else f"spec.{part}[{i}].{name}"
            yield Problem(document.file, document.line(("spec", part, i)), subject, field, message)


def _unsupported(spec: object) -> Iterator[tuple[str, int, str, str]]:
    """Yield field of spec, index, field of the item, message. The manifest may be invalid in any way."""
    for i, item in _maps(spec, "listeners"):
        if item.get("tls") and not item.get("certificate"):
            message = "local mode issues no certificates: for TLS, set certificate and add its Secret to the manifests"
            yield "listeners", i, "tls", message
        if item.get("auth") == "mtls" and not item.get("clientAuthorities"):
            yield "listeners", i, "auth", MTLS
    console = spec.get("console") if isinstance(spec, dict) else None
    if isinstance(console, dict) and console.get("certificate"):
        if console.get("auth") == "mtls" and not console.get("clientAuthorities"):
            yield "console", 0, "auth", MTLS
    for i, item in _maps(spec, "tokenProfiles"):
        if "serviceAccounts" in item:
            message = "there are no ServiceAccounts in local mode; use issuer, audience, and keysSecretRef or keysUrl"
            yield "tokenProfiles", i, "serviceAccounts", message


def _maps(spec: object, name: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    items = spec.get(name) if isinstance(spec, dict) else None
    for i, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield i, item


def _secret_problems(documents: Iterable[Document], checked: Checked) -> Iterator[Problem]:
    """Check Secrets of listeners and token profiles: they must be in the manifests, and all users must be able to log
    in."""
    found = {router.ref: _secrets_of(router, checked) for router in checked.routers}
    for document in documents:
        data = document.data
        if isinstance(data, dict) and data.get("kind") == "Router" and not found[ref_of(data)].good:
            line = document.line(("spec", "listeners"))
            yield Problem(document.file, line, f"Router/{ref_of(data)}", "spec.listeners", found[ref_of(data)].message)


def _secrets_of(router: Router, checked: Checked) -> Verdict:
    secrets = checked.secrets_of(router.ref.namespace)
    wrong = together((judge_users(router, secrets), *(judge_listener(one, secrets) for one in router.listeners)))
    return judge_tokens(router, secrets, UNKNOWN) if wrong.good else wrong
