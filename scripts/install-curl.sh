#!/usr/bin/env bash
# Installs curl unless it is on PATH. The tests run the examples of the documentation with it.
set -euo pipefail
# shellcheck source=scripts/packages.sh
source "$(dirname "$0")/packages.sh"

if ! command -v curl >/dev/null; then
  install_packages 'curl' curl curl
fi
