#!/bin/sh
# rootfs.sh BINARY DIRECTORY makes the file system of the image without Redis: the program, its user, the certificates of
# public authorities, and a /tmp. The Dockerfile and scripts/check-image.sh call it.
set -eu
install -D -m 755 "$1" "$2/usr/bin/tidemark"
install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$2/etc/ssl/certs/ca-certificates.crt"
install -d -m 1777 "$2/tmp"
printf '%s\n' root:x:0:0:root:/:/sbin/nologin tidemark:x:65532:65532:Tidemark:/var/lib/tidemark:/sbin/nologin >"$2/etc/passwd"
printf '%s\n' root:x:0: tidemark:x:65532: >"$2/etc/group"
