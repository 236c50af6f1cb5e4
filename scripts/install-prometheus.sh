#!/usr/bin/env bash
# Installs Prometheus with promtool, and amtool of Alertmanager, unless they are on PATH. `make monitoring` uses them.
set -euo pipefail
# shellcheck source=scripts/packages.sh
source "$(dirname "$0")/packages.sh"

if ! command -v prometheus >/dev/null || ! command -v promtool >/dev/null; then
  install_packages 'Prometheus' prometheus prometheus
  disable_service prometheus
fi
if ! command -v amtool >/dev/null; then
  install_packages 'Alertmanager' prometheus-alertmanager alertmanager
  disable_service prometheus-alertmanager
fi
