#!/usr/bin/env bash
# Installs libfaketime unless it is installed. `make chaos` uses it to set the clock of a Redis. With --path, prints the
# path of the library.
set -euo pipefail
# shellcheck source=scripts/packages.sh
source "$(dirname "$0")/packages.sh"

# find_library prints the path of the library, and fails if there is none.
find_library() {
  local path
  for path in /usr/lib/*/faketime/libfaketime.so.1 /usr/lib*/faketime/libfaketime.so.1 \
    /opt/homebrew/lib/faketime/libfaketime.1.dylib /usr/local/lib/faketime/libfaketime.*; do
    if [ -e "$path" ]; then
      echo "$path"
      return
    fi
  done
  return 1
}

if ! find_library >/dev/null; then
  install_packages 'libfaketime' libfaketime libfaketime
fi
if [ "${1:-}" = --path ]; then
  find_library
fi
