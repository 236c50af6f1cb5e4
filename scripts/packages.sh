# shellcheck shell=bash
# Installs packages of the system. To be sourced.

# install_packages TITLE DEBIAN BREW installs the packages named in DEBIAN with apt-get, as root or with sudo
# where that asks no password, or those in BREW with Homebrew. It says what to install, and fails, where it
# can do neither.
install_packages() {
  local title=$1 debian=$2 brew=$3 as_root=(env) sbin=/usr/sbin:/sbin
  if [ "$(uname)" = Darwin ] && [ -n "$brew" ] && command -v brew >/dev/null; then
    echo "installing $title with Homebrew"
    # shellcheck disable=SC2086 # a list
    brew install --quiet $brew
    return
  fi
  if command -v apt-get >/dev/null; then
    if [ "$(id -u)" != 0 ]; then
      as_root=(sudo -n env)
    fi
    if "${as_root[@]}" true 2>/dev/null; then
      echo "installing $title with apt-get"
      "${as_root[@]}" PATH="$PATH:$sbin" apt-get -qq update
      # shellcheck disable=SC2086 # a list
      "${as_root[@]}" PATH="$PATH:$sbin" DEBIAN_FRONTEND=noninteractive \
        apt-get -qq install --yes --no-install-recommends $debian </dev/null >/dev/null
      return
    fi
  fi
  echo "Please install $title (Debian: ${debian:-none}; Homebrew: ${brew:-none})." >&2
  return 1
}
