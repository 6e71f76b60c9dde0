"""Where routers leave what they export: a volume of their pods, and beside them what hands the files on to S3. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from waymesh_operator.resources.model import S3, Router
from waymesh_operator.router_entities.entities import TELEMETRY_FOLDER

from .context import ClusterContext, Verdict

VOLUME, UPLOADER = "telemetry", "upload"
S3_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
"""What the Secret of an S3 target holds, as the uploader finds it in its environment."""
_GOOD = Verdict()


def judge_telemetry(router: Router, context: ClusterContext) -> Verdict:
    """Whether the claim or the Secret that the export needs is there."""
    telemetry = router.telemetry
    if telemetry.target == "Claim":
        return _claim(router, context.claims.get(telemetry.claim))
    if telemetry.s3 is None or not telemetry.s3.secret:
        return _GOOD
    data = context.secrets.get(telemetry.s3.secret)
    if data is None:
        return _unresolved("SecretMissing", f"Secret {telemetry.s3.secret} does not exist")
    missing = [key for key in S3_KEYS if not data.get(key)]
    if missing:
        return _unresolved("SecretIncomplete", f"Secret {telemetry.s3.secret} lacks {', '.join(missing)}")
    return _GOOD


def _claim(router: Router, modes: tuple[str, ...] | None) -> Verdict:
    name = router.telemetry.claim
    if modes is None:
        return _unresolved("ClaimMissing", f"PersistentVolumeClaim {name} does not exist")
    if "ReadWriteMany" not in modes:
        return _unresolved("ClaimUnusable", f"PersistentVolumeClaim {name} is not ReadWriteMany")
    return _GOOD


def _unresolved(reason: str, message: str) -> Verdict:
    text = f"telemetry: {message}; the export stays as it is"
    return Verdict(resolved_refs=False, reason=reason, message=text, spared=True)


def volume(router: Router, context: ClusterContext) -> Mapping[str, Any]:
    """The volume of the exported files.

    A pod has one even while nothing is exported: so the export is turned on and off without a restart.
    """
    if not judge_telemetry(router, context).good:
        return _named(context.pod_now.get("volumes"), VOLUME) or _empty()
    if router.telemetry.target == "Claim":
        return {"name": VOLUME, "persistentVolumeClaim": {"claimName": router.telemetry.claim}}
    return _empty()


def uploader(router: Router, context: ClusterContext, base: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The container that hands the files on to S3, if they go there; `base` is what it has like the router's.

    It begins before the router and ends after it, so that the files of the router's last moments go, too.
    """
    if not judge_telemetry(router, context).good:
        return _named(context.pod_now.get("initContainers"), UPLOADER)
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
    """Optional: a Secret that goes later must not keep the router in the same pod from starting."""
    return {"name": key, "valueFrom": {"secretKeyRef": {"name": secret, "key": key, "optional": True}}}


def _empty() -> Mapping[str, Any]:
    return {"name": VOLUME, "emptyDir": {}}


def _named(items: Iterable[Mapping[str, Any]] | None, name: str) -> Mapping[str, Any] | None:
    return next((item for item in items or () if item["name"] == name), None)
