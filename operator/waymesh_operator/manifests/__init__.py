"""Manifest files: YAML with line numbers, validated against the CRDs (structural schema and CEL rules)."""

from __future__ import annotations

from .check import Checked, check, check_alone
from .crds import Crd, load_crds
from .source import Document, read_files

__all__ = ["Checked", "Crd", "Document", "check", "check_alone", "load_crds", "read_files"]
