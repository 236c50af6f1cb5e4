#!/usr/bin/env bash
# release-files.sh DATE VERSION writes man pages and completions into dist-files/, which .goreleaser.yaml packs.
set -euo pipefail
cd "$(dirname "$0")/.."

rm -rf dist-files
mkdir -p dist-files/completions
program=dist-files/tidemark
go build -buildvcs=false -tags grpcnotrace,manuals -ldflags "-X main.date=$1 -X main.version=$2" -o "$program" ./cmd/tidemark
"$program" manuals dist-files/man
gzip -n -9 dist-files/man/*.1
for shell in bash zsh fish; do
  "$program" completion "$shell" >"dist-files/completions/tidemark.$shell"
done
"$program" completion powershell >dist-files/completions/tidemark.ps1
rm "$program"
