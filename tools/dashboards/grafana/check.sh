#!/usr/bin/env bash
# Compares the dashboards in deploy/grafana with Grafana's schema: TypeScript checks each as a Dashboard of
# @grafana/schema, which knows its fields, variables, panels and targets, but not the options of a type of panel.
set -euo pipefail
cd "$(dirname "$0")"

npm ci --loglevel=error --no-audit --no-fund
rm -rf generated
mkdir generated
for file in ../../../deploy/grafana/*.json; do
  {
    echo "import type { Dashboard } from '@grafana/schema';"
    echo 'export const dashboard: Dashboard ='
    cat "$file"
  } >"generated/$(basename "$file" .json).ts"
done
npx tsc -p .
