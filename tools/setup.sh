#!/usr/bin/env bash
# Makes .venv ready to work in: interpreter, system packages, Python packages, the project itself (editable).
# Quick when nothing it depends on has changed. Called by `make setup`; the engine is compiled by `make engine`.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=.venv
EXTRAS=router,client,operator,dev
NOTE=$VENV/.waymesh-setup
mkdir -p build
exec 9>build/setup.lock
flock 9

say() { printf 'setup: %s\n' "$*" >&2; }

# The venv is right as long as this is: what it is made from, and the names of the top-level packages (an editable
# install maps each by name).
fingerprint() {
    { cat pyproject.toml constraints.txt setup.py tools/setup.sh; compgen -G '*/*/__init__.py'; pwd; } | sha256sum | cut -d' ' -f1
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
        if [ -n "$candidate" ] && new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

APT_UPDATED=
need() { # need WHAT PACKAGE...: by apt where we may, else say what is missing and stop
    local what=$1
    shift
    if ! can_apt; then
        say "$what is missing. Install it first (Debian and Ubuntu: apt-get install $*)."
        exit 1
    fi
    say "$what is missing: apt-get install $*"
    [ -n "$APT_UPDATED" ] || { apt-get update -qq; APT_UPDATED=1; }
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

has_header() { echo "#include <$1>" | cc -E "${@:2}" - >/dev/null 2>&1; }

system_packages() {
    command -v cc >/dev/null || need "a C compiler" gcc libc6-dev
    has_header openssl/ssl.h || need "the OpenSSL header files (TLS of the load generator and of proton)" libssl-dev
    command -v pkg-config >/dev/null || need "pkg-config (the build of python-qpid-proton asks it for OpenSSL)" pkg-config
    PY=$(find_python) || { need "Python 3.11 or later" python3 python3-venv python3-dev; PY=$(find_python); } ||
        { say "this system's own Python is too old: install Python 3.11 or later and set PYTHON to it."; exit 1; }
    local version include
    version=$("$PY" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    include=$("$PY" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    has_header Python.h "-I$include" || need "the header files of Python $version" "python$version-dev"
    "$PY" -c 'import ensurepip, venv' 2>/dev/null || need "the venv module of Python $version" "python$version-venv"
}

if [ -x $VENV/bin/python ] && [ -x $VENV/bin/waymesh ] && [ "$(cat $NOTE 2>/dev/null)" = "$(fingerprint)" ]; then
    exit 0
fi

system_packages
# A venv does not survive being moved, nor its interpreter being replaced.
if ! $VENV/bin/python -c "import sys; sys.exit(sys.prefix != '$PWD/$VENV')" 2>/dev/null || ! new_enough $VENV/bin/python; then
    say "creating $VENV with $("$PY" --version)"
    rm -rf $VENV
    "$PY" -m venv $VENV
fi
PIP="$VENV/bin/python -W ignore -m pip --disable-pip-version-check --quiet"
say "installing the tools and libraries of constraints.txt into $VENV (a few minutes the first time)"
$PIP install -c constraints.txt pip setuptools wheel cython
$PIP install -c constraints.txt --no-build-isolation -e ".[$EXTRAS]"
fingerprint >$NOTE
say "done"
