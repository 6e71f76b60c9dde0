#!/usr/bin/env bash
# From a cluster whose nodes have our images to a report, by the commands of README.md; prints the time of each.
# `make kind-up` runs it on a kind cluster, tests/e2e_cluster/test_e2e_quickstart.py on the Kubernetes of the tests.
#   walk.sh OUT        the report goes to OUT/report.html, a table to OUT/traffic.json
# kubectl, helm and kubectl-waymesh are in the PATH; KUBECONFIG names the cluster.
set -euo pipefail
out=$(realpath "${1:?usage: walk.sh OUT}")
cd "$(dirname "$0")/../.."
began=$SECONDS

step() { # step WORDS…: runs a command and says how long it took
  local at=$SECONDS
  echo "\$ $*"
  "$@"
  echo "  $((SECONDS - at)) s"
}

accepted() { # what the producer says when all its messages are accepted
  kubectl -n quickstart logs deploy/producer --tail=1 | sed -n 's/^accepted: \(.*\) (finished)$/\1/p'
}

stored() { # the same of the deliveries that the routers have recorded and the store holds
  kubectl -n quickstart exec deploy/store -- python /programs/store.py /files
}

until_equal() { # until the store has what the producer says
  local deadline=$((SECONDS + 180)) sent='' found=''
  while [ -z "$sent" ] || [ "$sent" != "$found" ]; do
    if [ $SECONDS -gt $deadline ]; then
      echo "after three minutes the producer says '$sent', the store '$found'" >&2
      return 1
    fi
    sleep 1
    sent=$(accepted | tr ',' '\n' | sed 's/^ //' | sort -k3 | paste -sd, | sed 's/,/, /g')
    found=$(stored)
  done
  echo "sent: $sent"
}

step helm upgrade --install waymesh helm/waymesh --namespace waymesh-system --create-namespace --wait
step kubectl apply -k examples/quickstart
step kubectl -n quickstart wait router/mesh --for=condition=Ready --timeout=180s
step kubectl -n quickstart rollout status deploy/store deploy/producer deploy/consumer --timeout=180s
step until_equal
step kubectl -n quickstart create job first --from=cronjob/quickstart-waymesh-analytics
step kubectl -n quickstart wait job/first --for=condition=Complete --timeout=300s
step kubectl -n quickstart rollout status deploy/quickstart-waymesh-analytics-report --timeout=120s
cd "$out"
step kubectl waymesh report -n quickstart
step kubectl waymesh report -n quickstart --file tables/traffic.json
echo "in all: $((SECONDS - began)) s"
