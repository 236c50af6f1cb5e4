#!/usr/bin/env bash
# Tests examples/community with headless Chromium.
set -euo pipefail
cd "$(dirname "$0")/.."

browser=$(scripts/install-chromium.sh --path | tail -n 1)
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
go build -buildvcs=false -tags grpcnotrace -o "$built/" ./cmd/tidemark ./examples/community
cd tools/e2e
go tool -modfile=../go.mod golangci-lint run --config ../../.golangci.yml
TIDEMARK_TEST_BINARY="$built/tidemark" TIDEMARK_TEST_COMMUNITY="$built/community" TIDEMARK_TEST_CHROMIUM="$browser" \
  go test -count=1 -timeout 5m ./...
