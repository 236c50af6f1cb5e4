#!/usr/bin/env bash
# sbom.sh BINARY DOCUMENT writes the modules in a program as CycloneDX JSON. goreleaser calls it in dist/.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
binary=$(realpath "$1")
document=$(realpath "$2")
cd "$root"
go tool -modfile=tools/release/go.mod cyclonedx-gomod bin -json -std -output "$document" "$binary"
