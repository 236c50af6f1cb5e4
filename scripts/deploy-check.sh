#!/usr/bin/env bash
# Checks what is in deploy/: the unit of systemd, the samples for nginx, HAProxy and Caddy in front of two servers, the
# files of compose, and the chart. POLL is how long a fetch waits through each proxy (3s).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/packages.sh
source scripts/packages.sh

[ "$(uname)" = Linux ] || { echo 'deploy: not checked, since this is not Linux'; exit 0; }
scripts/install-redis.sh
PATH="$PATH:/usr/sbin:/sbin"
for proxy in nginx haproxy caddy; do
  if ! command -v "$proxy" >/dev/null; then
    install_packages "$proxy" "$proxy" "$proxy"
    disable_service "$proxy"
  fi
done
command -v systemd-analyze >/dev/null || install_packages systemd-analyze systemd ''

# 1.5 is "OK" in the words of systemd-analyze; the number is ten times that.
systemd-analyze security --offline=yes --threshold=15 --no-pager deploy/systemd/tidemark.service | tail -n 1

scripts/install-prometheus.sh
promtool check config --syntax-only deploy/compose/prometheus.yml
amtool check-config deploy/compose/alertmanager.yml >/dev/null

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
go build -buildvcs=false -tags grpcnotrace -o "$built/tidemark" ./cmd/tidemark
cd tools/deploy
TIDEMARK_TEST_BINARY="$built/tidemark" go test -count=1 -timeout 5m ./proxies -poll "${POLL:-3s}"
TIDEMARK_TEST_BINARY="$built/tidemark" go test -count=1 ./chart ./composed
