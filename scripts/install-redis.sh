#!/usr/bin/env bash
# Installs redis-server unless it or valkey-server is on PATH, and checks that Redis is 7.0 or newer. Tests start
# their own servers, and so does `tidemark serve` if no Redis is configured.
set -euo pipefail
# shellcheck source=scripts/packages.sh
source "$(dirname "$0")/packages.sh"

if ! command -v redis-server >/dev/null; then
  if command -v valkey-server >/dev/null; then
    exit 0
  fi
  install_packages 'Redis 7.0 or newer' redis-server redis
  disable_service redis-server
fi

version=$(redis-server --version | sed -n 's/.* v=\([0-9]*\)\..*/\1/p')
if [ "${version:-0}" -lt 7 ] && ! command -v valkey-server >/dev/null; then
  echo "$(command -v redis-server) is older than 7.0: $(redis-server --version)" >&2
  echo 'Please install Redis 7.0 or newer, or Valkey.' >&2
  exit 1
fi
