#!/usr/bin/env bash
# kind.sh up: a kind cluster with our images, the quickstart in it, and its report in build/quickstart.
# kind.sh down: removes the cluster.
# Exit code 3: a tool is missing, which the message names.
set -euo pipefail
cd "$(dirname "$0")/../.."
name=waymesh

need() { # need TOOL WHERE: ends with exit code 3 unless the tool is in the PATH
  if ! command -v "$1" > /dev/null; then
    echo "$2" >&2
    exit 3
  fi
}

tools() {
  need docker 'docker is missing. Install Docker Engine: https://docs.docker.com/engine/install/'
  if ! docker info > /dev/null 2>&1; then
    echo 'docker does not answer. Start its daemon, and check that you may use it: docker info' >&2
    exit 3
  fi
  need kind 'kind is missing. Install it: https://kind.sigs.k8s.io/docs/user/quick-start/#installation'
}

up() {
  tools
  need kubectl 'kubectl is missing. Install it: https://kubernetes.io/docs/tasks/tools/'
  need helm 'helm is missing. Install it: https://helm.sh/docs/intro/install/'
  if ! command -v kubectl-waymesh > /dev/null; then
    PATH=$PWD/.venv/bin:$PATH
    need kubectl-waymesh 'kubectl-waymesh is missing. Run: make setup'
  fi
  # As in walk.sh, nothing is changed in the kubeconfig of the user.
  mkdir -p build/quickstart
  export KUBECONFIG=$PWD/build/quickstart/kubeconfig
  tools/images.sh docker
  if kind get clusters 2> /dev/null | grep -qx "$name"; then
    kind export kubeconfig --name "$name"
  else
    kind create cluster --name "$name" --config tests/kind/kind.yaml --wait 120s
  fi
  local version part
  version=$(sed -n 's/^appVersion: //p' helm/waymesh/Chart.yaml)
  for part in operator router analytics; do
    kind load docker-image "waymesh-$part:$version" --name "$name"
  done
  tests/kind/walk.sh build/quickstart
  echo "report: build/quickstart/report.html"
  echo "export KUBECONFIG=$KUBECONFIG"
}

down() {
  tools
  kind delete cluster --name "$name"
  rm -rf build/quickstart
}

case ${1:-} in
  up | down) "$1" ;;
  *)
    echo 'usage: kind.sh up|down' >&2
    exit 2
    ;;
esac
