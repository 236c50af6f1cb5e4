#!/usr/bin/env bash
# Builds the previous release of the service from the history of this repository, or another commit, unless it is
# built, and prints the path of the binary. `make upgrade` and `make chaos` run it beside this release, and `make bench`
# compares this release with an early commit.
# Usage: build-previous.sh [commit]
set -euo pipefail
cd "$(dirname "$0")/.."

# The previous release is the one tagged 0.1.0, and before there is one a commit of this repository.
previous=${1:-74c71984} tags=(0.1.0 v0.1.0)
[ $# = 0 ] || tags=()
for tag in "${tags[@]}"; do
  if commit=$(git rev-parse -q --verify "refs/tags/$tag^{commit}") && [ "$commit" != "$(git rev-parse HEAD)" ]; then
    previous=$commit
  fi
done
if ! commit=$(git rev-parse -q --verify "$previous^{commit}" 2>/dev/null); then
  echo "build-previous: the commit $previous of the previous release isn't there:" \
    'run this in a clone with the whole history (git fetch --unshallow --tags)' >&2
  exit 1
fi

out=$PWD/bin/previous/$commit
if [ ! -x "$out/tidemark" ]; then
  source=$(mktemp -d)
  trap 'rm -rf "$source"' EXIT
  git archive "$commit" | tar -x -C "$source"
  (cd "$source" && go build -trimpath -buildvcs=false -tags grpcnotrace -ldflags "-X main.commit=$commit" \
    -o "$out/tidemark" ./cmd/tidemark) >&2
fi
echo "$out/tidemark"
