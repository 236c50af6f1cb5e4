#!/usr/bin/env bash
# Runs each fuzz target of the module for the given time, such as 30s: as many at a time as there are cores, with one
# worker each. Each package is built once, as Go instruments all that it imports.
set -euo pipefail
cd "$(dirname "$0")/.."
export time=${1:-10s} built
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT

module=$(go list -m)
cache=$(go env GOCACHE)/fuzz
export module cache
targets=$(git grep -E '^func Fuzz' -- '*_test.go') # <folder>/<file>:func <name>(…
for folder in $(sed 's|/[^/]*:.*||' <<<"$targets" | sort -u); do
  go test -c -fuzz . -o "$built/$folder/test" "./$folder"
done

# fuzz runs a target. Its output is kept together, and shown if it fails.
fuzz() {
  local file=${1%%:*} name=${1#*:func }
  local folder=${file%/*} target=${name%%(*} output tries=0
  until output=$(cd "$folder" && "$built/$folder/test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" \
    -test.parallel 1 -test.fuzzcachedir "$cache/$module/$folder" </dev/null 2>&1); do
    # Before Go 1.27 the engine may take the end of the time for a failure (golang/go#75804): without an input that fails.
    if grep -q '^    context deadline exceeded$' <<<"$output" && ! grep -q 'Failing input' <<<"$output" &&
      ((tries++ < 2)); then
      continue
    fi
    echo "fuzz: $target of ./$folder has failed"$'\n'"$output"
    exit 1
  done
  echo "fuzz: $target of ./$folder for $time: $(tail -n 2 <<<"$output" | sed -n '1s/.*execs: \([0-9]*\).*/\1 executions/p')"
}
export -f fuzz
tr '\n' '\0' <<<"${targets}" | xargs -0 -n 1 -P "$(getconf _NPROCESSORS_ONLN)" bash -c 'fuzz "$1"' fuzz
