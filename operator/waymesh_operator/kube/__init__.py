"""The Kubernetes API behind a seam of five verbs; watching is kopf's part (see `handlers`)."""

from __future__ import annotations

from .client import FIELD_MANAGER, KubeClient, Manifest
from .kinds import CERT_MANAGER, CLAIM, CRON_JOB, EVENT, JOB, LEASE, OWNED, RESOURCES, SECRET, SELECTOR, Kind, kind_of

__all__ = [
    "CERT_MANAGER",
    "CLAIM",
    "CRON_JOB",
    "EVENT",
    "FIELD_MANAGER",
    "JOB",
    "LEASE",
    "OWNED",
    "RESOURCES",
    "SECRET",
    "SELECTOR",
    "Kind",
    "KubeClient",
    "Manifest",
    "kind_of",
]
