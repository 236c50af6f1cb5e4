#!/bin/sh
# Makes the user. The service isn't started by the package: "systemctl enable --now tidemark" does.
set -e
if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers tidemark.conf
elif ! getent passwd tidemark >/dev/null; then
  useradd --system --user-group --no-create-home --home-dir /var/lib/tidemark --shell /usr/sbin/nologin tidemark
fi
chgrp tidemark /etc/tidemark/tidemark.env
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart tidemark.service # after an upgrade
fi
