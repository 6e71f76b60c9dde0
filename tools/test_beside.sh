#!/usr/bin/env bash
# Runs targets of make in the background, beside another one in the foreground, and shows their output at its end.
# tools/test_beside.sh "TARGET …" TARGET
set -uo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
began=$SECONDS
{
    make --no-print-directory $1
    status=$?
    echo "test: $1: ended with status $status after $((SECONDS - began)) s"
    exit $status
} >"$log" 2>&1 </dev/null &
beside=$!
make --no-print-directory "$2"
front=$?
wait "$beside"
back=$?
cat "$log"
[ "$front" = 0 ] && [ "$back" = 0 ]
