#!/usr/bin/env bash
# Checks what makes a release, without publishing anything: the form of CHANGELOG.md, and with a VERSION its section;
# .goreleaser.yaml; a snapshot of all archives, packages, checksums and SBOMs in dist/; the Debian package, installed into
# a new system; the RPM's content; and the images. It needs root, or sudo without a password, for the last ones.
#
#   VERSION=v0.1.0 scripts/release-check.sh
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/packages.sh
source scripts/packages.sh

scripts/check-changelog.sh "${VERSION:-}"
goreleaser() { go tool -modfile=tools/release/go.mod goreleaser "$@"; }
goreleaser check --quiet
if ! git remote get-url origin >/dev/null 2>&1; then # without it, goreleaser leaves the commit and its date out
  export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url
  export GIT_CONFIG_VALUE_0=https://github.com/tidemark-dev/tidemark
fi
goreleaser release --snapshot --clean --skip=publish --timeout 20m
(cd dist && sha256sum --quiet --check checksums.txt)
scripts/check-packages.sh
scripts/check-image.sh
