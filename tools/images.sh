#!/usr/bin/env bash
# Builds the images of operator, router and analytics job: images.sh [docker|podman|buildah] (default: the first of
# these that is there). Exit code 3: none is.
# PREFIX=registry.example.com/team/ in the environment begins their names; SOURCE_URL and VENDOR become labels.
# ARCHITECTURES="amd64 arm64": those of this machine are built as usual, others get tags with the architecture at the
# end, and are left out where the builder cannot make them.
set -euo pipefail
cd "$(dirname "$0")/.."
engine=${1:-}
if [ -z "$engine" ]; then
  for engine in docker podman buildah ''; do
    # docker may be there without its daemon
    [ -n "$engine" ] && command -v "$engine" > /dev/null && "$engine" info > /dev/null 2>&1 && break
  done
elif ! command -v "$engine" > /dev/null; then
  engine=
fi
if [ -z "$engine" ]; then
  echo "${1:-docker, podman and buildah} cannot be used: they are not installed, or do not run. Install one of them: https://docs.docker.com/engine/install/," \
    'https://podman.io/docs/installation, https://buildah.io (Debian and Ubuntu: apt-get install podman)' >&2
  exit 3
fi
version=$(sed -n 's/^appVersion: //p' helm/waymesh/Chart.yaml)
revision=$(git rev-parse HEAD 2> /dev/null || echo unknown)
# The time of the commit, so that the same commit gives the same labels.
created=$(git log -1 --format=%cI 2> /dev/null || date -u +%Y-%m-%dT%H:%M:%SZ)

# What the Dockerfiles cannot know; title, description and licence are there.
labels=(--label "org.opencontainers.image.version=$version"
  --label "org.opencontainers.image.revision=$revision"
  --label "org.opencontainers.image.created=$created")
[ -z "${SOURCE_URL:-}" ] || labels+=(--label "org.opencontainers.image.source=$SOURCE_URL")
[ -z "${VENDOR:-}" ] || labels+=(--label "org.opencontainers.image.vendor=$VENDOR")

case $(uname -m) in aarch64 | arm64) own=arm64 ;; *) own=amd64 ;; esac

build() { # build PART ARGUMENTS…
  local part=$1
  shift
  echo "images: waymesh-$part:$tag by $engine"
  "$engine" build --tag "${PREFIX:-}waymesh-$part:$tag" "${labels[@]}" "$@" .
}

build_all() { # build_all ARGUMENTS…
  build router --file router_image/Dockerfile "$@" &&
    build operator --file Dockerfile --target operator "$@" &&
    build analytics --file Dockerfile --target analytics "$@"
}

tag=$version
build_all
for architecture in ${ARCHITECTURES:-}; do
  [ "$architecture" != "$own" ] || continue
  tag=$version-$architecture
  # What is wrong with the sources would have ended the build for this machine.
  build_all --platform "linux/$architecture" ||
    echo "images: left out: linux/$architecture: $engine cannot build for it here. It needs a builder of that architecture," \
      'or QEMU registered with the kernel (Debian and Ubuntu: apt-get install qemu-user-static binfmt-support)' >&2
done
