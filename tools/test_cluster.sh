#!/usr/bin/env bash
# The tests on a real Kubernetes, on one cluster that starts and ends here: first those that need it empty, then several
# files at a time, last those that touch what all share (operator, API server, nodes), one at a time.
# Arguments go to pytest. WAYMESH_CLUSTER_JOBS=N: files at a time (2). WAYMESH_CLUSTER_KEEP=1 leaves the cluster up.
# WAYMESH_CLUSTER_BESIDE=COMMAND runs beside all of them, with low priority; its output comes at the end.
set -uo pipefail
cd "$(dirname "$0")/.."

export WAYMESH_CLUSTER=${WAYMESH_CLUSTER:-e2e} WAYMESH_CLUSTER_SHARED=1 WAYMESH_ENGINE=compiled
# With one, two cores are idle for half of the time: tests wait for pods.
jobs=${WAYMESH_CLUSTER_JOBS:-2}
beside=${WAYMESH_CLUSTER_BESIDE:-}
unset WAYMESH_CLUSTER_BESIDE
pid= output=$(mktemp)
cluster() { .venv/bin/python -m tests.cluster --name "$WAYMESH_CLUSTER" "$@"; }

end() {
    status=$?
    [ -z "$pid" ] || kill -- "-$pid" 2>/dev/null
    rm -f "$output"
    [ "${WAYMESH_CLUSTER_KEEP:-}" = 1 ] || cluster down
    exit $status
}
trap end EXIT

# Status 5 of pytest: no test of this kind among those that the arguments select.
worst=0
run() {
    echo "test: on a real Kubernetes: $1"
    shift
    local began=$SECONDS status=0
    .venv/bin/python -m pytest tests/e2e_cluster "$@" || status=$?
    echo "test: ended with status $status after $((SECONDS - began)) s"
    [ $status = 0 ] || [ $status = 5 ] || worst=$status
}

cluster prepare && cluster up --empty || exit
began=$SECONDS
if [ -n "$beside" ]; then
    set -m # a group of its own, which ends as a whole
    (unset WAYMESH_CLUSTER WAYMESH_CLUSTER_SHARED WAYMESH_ENGINE; exec nice bash -c "$beside") >"$output" 2>&1 &
    pid=$!
    set +m
fi
run "in an empty cluster" -m "cluster and empty_cluster" "$@"
run "beside each other, $jobs at a time" -n "$jobs" --dist loadfile -m "cluster and not empty_cluster and not whole_cluster" "$@"
run "one at a time" -m "cluster and whole_cluster" "$@"
if [ -n "$pid" ]; then
    wait "$pid" || worst=$?
    pid=
    cat "$output"
    echo "test: beside the tests on a real Kubernetes: ended after $((SECONDS - began)) s"
fi
exit $worst
