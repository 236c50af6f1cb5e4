#!/usr/bin/env bash
# Makes the image tidemark-test-redis:local from this machine's redis-server, for tests on a machine whose
# Docker engine can't pull one. It needs: docker, redis-server, busybox (Debian: busybox-static).
#
# Tests use the image if the engine has it and TIDEMARK_TEST_REDIS_IMAGE doesn't name another. An engine that can't pull
# has no Ryuk either, and an engine on this machine is reached at 127.0.0.1:
#
#   TIDEMARK_TEST_REDIS=container TESTCONTAINERS_RYUK_DISABLED=true TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1 \
#     make test
set -euo pipefail

image=${1:-tidemark-test-redis:local}

for program in docker redis-server busybox ldd; do
  command -v "$program" >/dev/null || { echo "make-image.sh: no $program on PATH" >&2; exit 1; }
done

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# add_program copies a program to /bin of the image, and the libraries that it loads to their own paths.
add_program() {
  local path library
  path=$(command -v "$1")
  install -D -m 0755 "$path" "$root/bin/$1"
  # A static program has no libraries, which ldd reports as a failure.
  { ldd "$path" 2>/dev/null || true; } | grep -o '/[^ ]*\.so[^ ]*' | while read -r library; do
    install -D -m 0755 "$library" "$root$library"
  done || true
}

add_program redis-server
add_program busybox
ln -s busybox "$root/bin/sh"
install -d -m 1777 "$root/tmp" "$root/data"

tar -C "$root" -c . | docker import \
  --change 'CMD ["redis-server", "--bind", "0.0.0.0", "--protected-mode", "no"]' \
  --change 'WORKDIR /data' \
  --change 'EXPOSE 6379' \
  --change 'ENV PATH=/bin' \
  - "$image" >/dev/null
echo "made $image with $(redis-server --version)"
