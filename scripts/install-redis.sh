#!/usr/bin/env bash
# Sees to it that a redis-server 7.0 or newer, or a valkey-server, is on PATH. Tests start their own servers
# of it, and `tidemark serve` does so where no Redis is configured. Does nothing where one is there.
set -euo pipefail
# shellcheck source=scripts/packages.sh
source "$(dirname "$0")/packages.sh"

if command -v valkey-server >/dev/null; then
  exit 0
fi
if ! command -v redis-server >/dev/null; then
  install_packages 'Redis 7.0 or newer' redis-server redis
  # Debian starts the service that comes with the package. Nothing here uses it, and it holds port 6379.
  if [ -d /run/systemd/system ] && command -v systemctl >/dev/null; then
    if [ "$(id -u)" = 0 ]; then
      systemctl disable --now redis-server.service
    else
      sudo -n systemctl disable --now redis-server.service
    fi
  fi
fi

version=$(redis-server --version | sed -n 's/.* v=\([0-9]*\)\..*/\1/p')
if [ "${version:-0}" -lt 7 ]; then
  echo "$(command -v redis-server) is older than 7.0: $(redis-server --version)" >&2
  echo 'Please install Redis 7.0 or newer, or Valkey.' >&2
  exit 1
fi
