#!/usr/bin/env bash
# Tests clients/typescript and clients of streams from npm with Node, and the console and the examples with headless
# Chromium. ARGS=-update writes the screenshots of docs/console.md.
set -euo pipefail
cd "$(dirname "$0")/.."

browser=$(scripts/install-chromium.sh --path | tail -n 1)
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
go build -buildvcs=false -tags grpcnotrace -o "$built/" ./cmd/tidemark ./examples/{ai-chat,chat,community,duel}
TIDEMARK_TEST_BINARY="$built/tidemark" scripts/check-client.sh
cd tools/e2e
go tool -modfile=../go.mod golangci-lint run --config ../../.golangci.yml
npm ci --prefix sse --loglevel=error --no-audit --no-fund
npm ci --prefix durable --loglevel=error --no-audit --no-fund
npm ci --prefix axe --loglevel=error --no-audit --no-fund
TIDEMARK_TEST_BINARY="$built/tidemark" TIDEMARK_TEST_COMMUNITY="$built/community" TIDEMARK_TEST_CHAT="$built/chat" \
  TIDEMARK_TEST_DUEL="$built/duel" TIDEMARK_TEST_AI_CHAT="$built/ai-chat" TIDEMARK_TEST_CHROMIUM="$browser" \
  go test -count=1 -timeout 8m . "$@"
