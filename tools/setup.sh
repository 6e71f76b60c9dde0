#!/usr/bin/env bash
# Makes .venv ready to work in: interpreter, system packages, Python packages, the project itself (editable).
# Quick when nothing it depends on has changed. Called by `make setup`; the engine is compiled by `make engine`.
# `setup.sh analytics` adds what the Spark job needs (half a gigabyte), and Java; `setup.sh s3a` what that needs for S3,
# `setup.sh console` Node, `setup.sh chaos` what `make test-chaos` needs.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=.venv
EXTRAS=router,oauth,client,operator,upload,dev
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

APT_S=300 APT_AGAIN_S=2
apt_get() { # as apt-get, without its output; while another program has locked apt, waits for up to APT_S
    local until=$((SECONDS + APT_S)) said='' error
    while ! error=$(DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get "$@" 2>&1 >/dev/null); do
        case $error in
            *"ould not get lock"* | *"nable to acquire the dpkg frontend lock"* | *"nable to lock"*) ;;
            *) say "apt-get $*: $error"; return 1 ;;
        esac
        [ "$SECONDS" -lt "$until" ] || { say "another program has locked apt for $APT_S s: $error"; return 1; }
        [ -n "$said" ] || say "another program has locked apt: waiting up to $APT_S s"
        said=1
        sleep "$APT_AGAIN_S"
    done
}

APT_UPDATED=
need() { # need WHAT PACKAGE...: by apt where we may, else say what is missing and stop
    local what=$1
    shift
    if ! can_apt; then
        say "$what is missing. Install it first (Debian and Ubuntu: apt-get install $*)."
        exit 1
    fi
    say "$what is missing: apt-get install $*"
    [ -n "$APT_UPDATED" ] || { apt_get update -qq; APT_UPDATED=1; }
    apt_get install -y -qq --no-install-recommends "$@"
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

PIP="$VENV/bin/python -W ignore -m pip --disable-pip-version-check --quiet"

# extra NAME WHAT: adds what an extra of pyproject.toml needs, which few commands do.
extra() {
    [ "$(cat $NOTE-$1 2>/dev/null)" != "$(fingerprint)" ] || return 0
    say "installing $2 into $VENV"
    # The requirements alone: the project itself is there already.
    local wanted
    wanted=$($VENV/bin/python -c 'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"][sys.argv[1]], sep="\n")' "$1")
    $PIP install -c constraints.txt -r <(echo "$wanted")
    fingerprint >$NOTE-$1
}

console() { extra console Node; }

analytics() {
    command -v java >/dev/null || need "Java 17 or later (Spark)" openjdk-17-jre-headless
    extra analytics "PySpark, matplotlib and Jinja"
}

s3a() {
    local jars
    jars=$($VENV/bin/python -c 'import pyspark; print(pyspark.__path__[0])')/jars
    [ ! -e "$(compgen -G "$jars/hadoop-aws-*.jar")" ] || return 0
    command -v mvn >/dev/null || need "Maven (gets Hadoop's part for S3)" maven
    say "adding the jars of spark/s3a/pom.xml to PySpark"
    mvn -q -B -ntp -f spark/s3a/pom.xml dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$jars"
}

chaos() { # the programs of faults that need a network of their own
    PATH=$PATH:/usr/sbin:/sbin
    command -v nft >/dev/null || need "nft" nftables
    command -v tc >/dev/null || need "tc" iproute2
    command -v unshare >/dev/null || need "unshare" util-linux
}

case "${1:-}" in
    analytics | chaos | console | s3a) "$1"; exit 0 ;;
esac

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
say "installing the tools and libraries of constraints.txt into $VENV (a few minutes the first time)"
# python-qpid-proton apart from the project, whose build is not isolated: without cffi its build quietly leaves out its
# library. Where that has happened, pip keeps the wheel.
$PIP install -c constraints.txt pip setuptools wheel cython python-qpid-proton
$VENV/bin/python -c 'import proton' 2>/dev/null ||
    $PIP install -c constraints.txt --no-cache-dir --no-deps --force-reinstall python-qpid-proton
$PIP install -c constraints.txt --no-build-isolation -e ".[$EXTRAS]"
fingerprint >$NOTE
say "done"
