#!/usr/bin/env bash
# Builds the images of the Dockerfile without Docker, and runs them in a chroot, as their own user and in a network of
# their own. It needs root, or sudo without a password. `go build` replaces the Dockerfile's first stage, and mmdebstrap
# the base image of Debian.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/packages.sh
source scripts/packages.sh

[ "$(uname)" = Linux ] || { echo 'image: not checked, since this is not Linux'; exit 0; }
command -v mmdebstrap >/dev/null || install_packages mmdebstrap mmdebstrap ''
scripts/install-redis.sh
built=$(mktemp -d)
trap 'as_root rm -rf "$built"' EXIT
CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags grpcnotrace -ldflags '-s -w' -o "$built/tidemark" ./cmd/tidemark
go -C tools/deploy build -o "$built/image" ./image
go -C tools/deploy test -c -o "$built/image.test" ./image
mkdir -p "$built/stage/empty"
deploy/image/rootfs.sh "$built/tidemark" "$built/stage/rootfs"

debian=$(sed -n 's/^ARG DEBIAN=//p' Dockerfile)
as_root mmdebstrap --quiet --mode=root --variant=minbase --dpkgopt=force-unsafe-io "$debian" "$built/debian"
as_root "$built/image" -target managed -build "$built/stage" -base "$built/debian" -output "$built/managed.tar"
as_root "$built/image" -target service -build "$built/stage" -output "$built/service.tar"
for target in service managed; do
  options=()
  [ "$target" = service ] || options=(-managed)
  # shellcheck disable=SC2016 # the inner shell expands it
  as_root timeout 300 unshare --net sh -c 'ip link set lo up && exec "$@"' sh \
    "$built/image.test" -test.timeout 4m -image "$built/$target.tar" "${options[@]}"
  echo "image: $target runs, $(stat -c %s "$built/$target.tar") bytes compressed"
done
