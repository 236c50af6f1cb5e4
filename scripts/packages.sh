# shellcheck shell=bash
# Functions that install packages of the operating system. Other scripts source this file.

# as_root runs a command as root, with sudo if this user isn't root. It fails if sudo would ask for a password.
as_root() {
  local paths="$PATH:/usr/sbin:/sbin"
  if [ "$(id -u)" = 0 ]; then
    env PATH="$paths" "$@"
  else
    sudo -n env PATH="$paths" "$@"
  fi
}

# apt_get runs apt-get without questions and without output.
apt_get() {
  as_root DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" </dev/null >/dev/null
}

# install_packages TITLE DEBIAN BREW installs the packages listed in DEBIAN with apt-get, or those in BREW with
# Homebrew. If it can use neither, it prints what to install and fails.
install_packages() {
  local title=$1 debian=$2 brew=$3
  if [ "$(uname)" = Darwin ] && [ -n "$brew" ] && command -v brew >/dev/null; then
    echo "installing $title with Homebrew"
    # shellcheck disable=SC2086 # a list
    brew install --quiet $brew
  elif command -v apt-get >/dev/null && as_root true 2>/dev/null; then
    echo "installing $title with apt-get"
    apt_get update
    # shellcheck disable=SC2086 # a list
    apt_get install --yes --no-install-recommends $debian
  else
    echo "Please install $title (Debian: ${debian:-none}; Homebrew: ${brew:-none})." >&2
    return 1
  fi
}

# disable_service NAME stops the service that Debian starts when it installs a server. Nothing here uses it, and it
# occupies port 6379.
disable_service() {
  if [ -d /run/systemd/system ] && command -v systemctl >/dev/null; then
    as_root systemctl disable --now "$1.service"
  fi
}
