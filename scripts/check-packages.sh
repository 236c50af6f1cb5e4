#!/usr/bin/env bash
# Checks the packages in dist/: what is in them, and that the Debian package can be installed, upgraded and removed.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/packages.sh
source scripts/packages.sh

fail() { echo "packages: $*" >&2; exit 1; }
[ "$(uname)" = Linux ] || { echo 'packages: not checked, since this is not Linux'; exit 0; }
command -v mmdebstrap >/dev/null || install_packages mmdebstrap mmdebstrap ''
command -v rpm >/dev/null || install_packages rpm rpm ''

files='/usr/bin/tidemark /usr/lib/systemd/system/tidemark.service /etc/tidemark/tidemark.env
  /usr/lib/sysusers.d/tidemark.conf /usr/share/man/man1/tidemark-serve.1.gz /usr/share/doc/tidemark/copyright
  /usr/share/bash-completion/completions/tidemark /usr/share/zsh/vendor-completions/_tidemark
  /usr/share/fish/vendor_completions.d/tidemark.fish'
for package in dist/*.deb dist/*.rpm; do
  case $package in
  *.deb) content=$(dpkg-deb --fsys-tarfile "$package" | tar -t | sed 's,^\.,,; s,^\([^/]\),/\1,') ;;
  *.rpm) content=$(rpm --query --list --package "$package" 2>/dev/null) ;;
  esac
  for file in $files; do
    grep -qx "$file" <<<"$content" || fail "$package has no $file"
  done
done
for os in linux darwin windows; do
  for arch in amd64 arm64; do
    compgen -G "dist/tidemark_*_${os}_$arch.*" >/dev/null || fail "no archive for $os $arch"
    compgen -G "dist/tidemark_*_${os}_$arch.cdx.json" >/dev/null || fail "no SBOM for $os $arch"
  done
done

# $1 is the new system's directory.
cat >dist/installed.sh <<'EOF'
set -eu
chroot "$1" sh -eux <<'SH'
dpkg -i /tidemark.deb
id tidemark
[ "$(stat -c %U:%G:%a /etc/tidemark/tidemark.env)" = root:tidemark:640 ]
tidemark version | grep -q '^commit   [0-9a-f]\{40\}'
echo changed=1 >>/etc/tidemark/tidemark.env
dpkg -i /tidemark.deb
grep -q changed=1 /etc/tidemark/tidemark.env
dpkg --remove tidemark
[ ! -e /usr/bin/tidemark ]
id tidemark
SH
EOF
package=$(echo dist/*_linux_"$(dpkg --print-architecture)".deb)
as_root mmdebstrap --quiet --mode=root --variant=minbase --dpkgopt=force-unsafe-io --format=null \
  --customize-hook="upload $package /tidemark.deb" --customize-hook="sh $PWD/dist/installed.sh \"\$1\"" \
  "$(sed -n 's/^ARG DEBIAN=//p' Dockerfile)" /dev/null
echo 'packages: complete, and the Debian package is installed, upgraded and removed'
