#!/usr/bin/env bash
# Runs each fuzz target of the module for the given time, such as 30s.
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-10s}

# go test lists the names of a package's targets and then the package.
targets=$(go test -list '^Fuzz' ./... | awk '
  /^Fuzz/ { names[n++] = $1 }
  /^ok/   { for (i = 0; i < n; i++) print $2, names[i]; n = 0 }')
while read -r package name; do
  [ -n "$name" ] || continue
  echo "== $package $name for $time"
  go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$package" </dev/null
done <<<"$targets"
