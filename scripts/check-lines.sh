#!/usr/bin/env bash
# Checks that the lines of JavaScript and TypeScript end by column 120. golangci-lint does it for Go.
set -euo pipefail
cd "$(dirname "$0")/.."

files=$(git ls-files '*.js' '*.mjs' '*.ts' ':!internal/console/web/lib')
# shellcheck disable=SC2086 # no name has a space
if LC_ALL=C.UTF-8 grep -nE '^.{121,}' $files; then
  echo 'lint: these lines are longer than 120 columns' >&2
  exit 1
fi
