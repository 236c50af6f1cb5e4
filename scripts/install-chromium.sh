#!/usr/bin/env bash
# Installs Chromium unless it or Chrome is installed. `make e2e` drives it without a window. With --path, prints the path of
# the browser.
set -euo pipefail
# shellcheck source=scripts/packages.sh
source "$(dirname "$0")/packages.sh"

# find_browser prints the path of the browser, and fails if there is none.
find_browser() {
  local name
  for name in chromium chromium-browser google-chrome google-chrome-stable \
    '/Applications/Chromium.app/Contents/MacOS/Chromium' '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'; do
    if command -v "$name"; then
      return
    fi
  done
  return 1
}

if ! find_browser >/dev/null; then
  install_packages 'Chromium' chromium '--cask chromium'
fi
if [ "${1:-}" = --path ]; then
  find_browser
fi
