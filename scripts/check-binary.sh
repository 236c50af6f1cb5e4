#!/usr/bin/env bash
# Checks that the linker drops methods that nothing calls, and the program's size, with the tag of `make build`. If
# anything looks up methods by a name that is known only at run time, as text/template does, the linker keeps the methods
# of all types; those that build the commands of Redis alone have 10 MB.
set -euo pipefail
cd "$(dirname "$0")/.."
max=30000000 # bytes, as README.md says

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
go build -buildvcs=false -tags grpcnotrace -ldflags '-s -w -dumpdep' -o "$built/tidemark" ./cmd/tidemark \
  >"$built/graph" 2>&1 # a line for each edge from one symbol to another
grep -q '^main\.main ' "$built/graph" || { echo 'binary: the linker printed no graph' >&2; exit 1; }
if grep -oE '^[^ ]+ <[^>]*ReflectMethod[^>]*>|[^ ]+ <[^>]*ReflectMethod[^>]*>' "$built/graph" | sort -u | grep .; then
  echo 'binary: these look up methods by name, so that the linker keeps all' >&2
  exit 1
fi
size=$(wc -c <"$built/tidemark")
if ((size > max)); then
  echo "binary: the program has $size bytes, at most $max are allowed" >&2
  exit 1
fi
echo "binary: $size bytes"
