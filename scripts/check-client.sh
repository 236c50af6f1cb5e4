#!/usr/bin/env bash
# Builds clients/typescript, checks the size of what a page loads, packs it as npm would publish it, and tests the
# packed file with Node and a running service. With --build, only builds it.
set -euo pipefail
cd "$(dirname "$0")/../clients/typescript"
max=10752 # bytes of the client for channels and tickets, compressed

if ! command -v npm >/dev/null || ! node -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)'; then
  echo 'client: please install Node 20 or newer with npm' >&2
  exit 1
fi
npm ci --loglevel=error --no-audit --no-fund
rm -rf dist
npm run --silent build
size=$(gzip -9c dist/tidemark.min.js | wc -c)
echo "client: $size bytes, compressed"
if ((size > max)); then
  echo "client: at most $max bytes are allowed" >&2
  exit 1
fi

if [ "${1:-}" = --build ]; then
  exit
fi
packed=$(mktemp -d)
trap 'rm -rf "$packed"' EXIT
npm pack --silent --pack-destination "$packed"
npm install --prefix test --no-save --no-package-lock --loglevel=error --no-audit --no-fund "$packed"/*.tgz
rm -rf test/build
node_modules/.bin/tsc --project test
if [ -z "${TIDEMARK_TEST_BINARY:-}" ]; then
  go build -C ../.. -buildvcs=false -tags grpcnotrace -o "$packed/tidemark" ./cmd/tidemark
  export TIDEMARK_TEST_BINARY="$packed/tidemark"
fi
node --experimental-websocket --test --test-reporter=spec test/build/*.test.js
