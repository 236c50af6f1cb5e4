#!/usr/bin/env bash
# Checks docs/openapi.yaml, generates a Go client from it and, if npm is installed, a TypeScript client, and tests each
# with a running service.
set -euo pipefail
cd "$(dirname "$0")/../tools/openapi"

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
go build -C ../.. -buildvcs=false -tags grpcnotrace -o "$built/tidemark" ./cmd/tidemark
mkdir -p generated
go tool oapi-codegen -config go-client.yaml ../../docs/openapi.yaml
go tool -modfile=../go.mod golangci-lint run --config ../../.golangci.yml

flags=()
if command -v npm >/dev/null && node -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)'; then
  npm ci --prefix typescript --loglevel=error --no-audit --no-fund
else
  echo 'openapi: the TypeScript client is not tested, since there is no npm with Node 20 or newer on PATH'
  flags=(-skip TypeScript)
fi
TIDEMARK_TEST_BINARY="$built/tidemark" go test -count=1 -timeout 10m "${flags[@]}" ./...
