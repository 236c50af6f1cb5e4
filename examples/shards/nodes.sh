#!/usr/bin/env bash
# nodes.sh runs three data centres, a, b and c, of four nodes each, until Ctrl-C. Redis is at REDIS_URL.
set -euo pipefail -m # each node is a process group
cd "$(dirname "$0")"
built=$(mktemp -d)
stop() {
  for node in $(jobs -p); do kill -- "-$node" || true; done
  wait
  rm -r "$built"
}
trap stop EXIT
trap 'exit 0' INT TERM

go build -o "$built/shards" .
"$built/shards" layout 4
for dc in a b c; do
  for host in 0 1 2 3; do
    # A node that has lost its shard ends, and is started again.
    (trap exit TERM; until "$built/shards" node $dc $dc$host; do sleep 1; done) &
  done
done
wait
