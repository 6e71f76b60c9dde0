#!/usr/bin/env bash
# The chart as dist/waymesh-VERSION.tgz; with REGISTRY=oci://host/path also pushed there. Exit code 3: helm is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v helm > /dev/null; then
  echo 'helm is missing. Install it: https://helm.sh/docs/intro/install/' >&2
  exit 3
fi
helm lint --strict helm/waymesh
mkdir -p dist
helm package helm/waymesh --destination dist
if [ -n "${REGISTRY:-}" ]; then
  helm push "dist/waymesh-$(sed -n 's/^version: //p' helm/waymesh/Chart.yaml).tgz" "$REGISTRY"
fi
