"""Manifest files: YAML with line numbers, validated against the CRDs (structural schema and CEL rules)."""

from __future__ import annotations

from .check import Checked, check
from .crds import Crd, load_crds
from .source import Document, read_files

__all__ = ["Checked", "Crd", "Document", "check", "load_crds", "read_files"]
