#!/usr/bin/env bash
# Builds the modules of the console that are not written for it, internal/console/web/lib: Preact, htm and uPlot from npm,
# and clients/typescript. internal/console/npm/built.json records versions, licences and hashes, which a test of package
# console compares with the files. It needs npm and Node 20 or newer.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/check-client.sh --build
cd internal/console/npm
npm ci --loglevel=error --no-audit --no-fund
rm -rf ../web/lib
for module in preact uplot tidemark; do
  ../../../clients/typescript/node_modules/.bin/esbuild $module.js --bundle --minify --format=esm --target=es2022 \
    --legal-comments=none --log-level=warning --outfile=../web/lib/$module.js
done
node record.js
