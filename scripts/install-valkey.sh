#!/usr/bin/env bash
# Installs valkey-server if apt-get can, from this release of the system or from its backports. The tests of the
# stores then run on Valkey as well as on Redis. Valkey is optional: without it, the script prints one line.
set -euo pipefail
# shellcheck source=scripts/packages.sh
source "$(dirname "$0")/packages.sh"

# add_backports FILE writes a list of sources that has the system's own list and the backports of its release, from the
# mirror that apt-get already uses. The system's configuration stays as it is.
add_backports() {
  local release mirror
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  # shellcheck disable=SC2016 # apt-get expands it
  mirror=$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk -v release="$release" '$1 == "Debian" && $2 == release && $3 == "main" { uri = $4 } END { print uri }')
  [ -n "$release" ] && [ -n "$mirror" ] || return 1
  {
    cat /etc/apt/sources.list 2>/dev/null || true
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release-backports main"
  } >"$1"
}

# install_valkey OPTION... installs the package with these options of apt-get.
install_valkey() {
  apt_get "$@" -o Acquire::Retries=0 -o Acquire::http::Timeout=10 -o Acquire::https::Timeout=10 update &&
    apt_get "$@" install --yes --no-install-recommends valkey-server
}

# try_releases tries this release, then its backports.
try_releases() {
  command -v apt-get >/dev/null && as_root true || return 1
  install_valkey || { add_backports "$sources" && install_valkey -o Dir::Etc::sourcelist="$sources"; }
}

if command -v valkey-server >/dev/null; then
  exit 0
fi
sources=$(mktemp)
trap 'rm -f "$sources"' EXIT
chmod a+r "$sources"
if try_releases 2>/dev/null && disable_service valkey-server; then
  echo 'installed valkey-server with apt-get'
else
  echo 'no valkey-server on PATH, and apt-get has none: the tests leave Valkey out'
fi
