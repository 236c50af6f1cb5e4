#!/usr/bin/env bash
# Checks the configuration and the rules in deploy/prometheus with the tools of Prometheus, the dashboards in
# deploy/grafana with Grafana's schema, and both with a Prometheus that scrapes running servers and nodes of shards: no
# panel and no rule names a series that isn't there. It needs npm and Node 20 or newer. Grafana itself isn't run.
set -euo pipefail
cd "$(dirname "$0")/.."

promtool check config --syntax-only deploy/prometheus/prometheus.yaml
promtool check rules deploy/prometheus/rules.yaml
promtool test rules deploy/prometheus/rules_test.yaml
amtool check-config deploy/prometheus/alertmanager.yaml
tools/dashboards/grafana/check.sh

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
program=${TIDEMARK_TEST_BINARY:-}
if [ -z "$program" ]; then
  program=$built/tidemark
  go build -buildvcs=false -tags grpcnotrace -o "$program" ./cmd/tidemark
fi
cd tools/dashboards
TIDEMARK_TEST_BINARY="$program" go test -count=1 -timeout 5m ./live
