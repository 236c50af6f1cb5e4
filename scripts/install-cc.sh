#!/usr/bin/env bash
# Installs the C compiler that the race detector needs, unless cgo is enabled.
set -euo pipefail
# shellcheck source=scripts/packages.sh
source "$(dirname "$0")/packages.sh"

if [ "$(go env CGO_ENABLED)" != 1 ]; then
  install_packages 'a C compiler for the race detector' 'gcc libc6-dev' ''
fi
