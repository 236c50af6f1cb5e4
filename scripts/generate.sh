#!/usr/bin/env bash
# Generates Go code from the .proto files: *.pb.go in openmatch, shard/rpc/shardpb and storage/redis/queues. The plugins are
# pinned in tools/go.mod; their output does not depend on the version of protoc.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/packages.sh
source scripts/packages.sh

protos=(openmatch/*.proto shard/rpc/*.proto storage/redis/queues/internal/stored/*.proto)
generated=(openmatch shard/rpc storage/redis/queues/internal/stored)
paths=(--proto_path=. --proto_path=tools/proto)
if ! protoc "${paths[@]}" --descriptor_set_out=/dev/null "${protos[@]}" 2>/dev/null; then
  install_packages 'protoc and its .proto files' 'protobuf-compiler libprotobuf-dev' protobuf
fi

plugins=$(mktemp -d)
trap 'rm -rf "$plugins"' EXIT
go build -modfile=tools/go.mod -o "$plugins/" \
  google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
module=$(go list -m)

find "${generated[@]}" -name '*.pb.go' -delete
PATH="$plugins:$PATH" protoc "${paths[@]}" \
  --go_out=. --go_opt=module="$module" --go-grpc_out=. --go-grpc_opt=module="$module" "${protos[@]}"

# Remove the version of protoc from the generated code.
find "${generated[@]}" -name '*.pb.go' -exec sed -i.bak '/^\/\/ .*protoc  *v/d' {} +
find "${generated[@]}" -name '*.pb.go.bak' -delete
