#!/bin/sh
# Makes the user. The service isn't started by the package: "systemctl enable --now tidemark" does.
set -e
if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers tidemark.conf
elif ! getent passwd tidemark >/dev/null; then
  useradd --system --user-group --no-create-home --home-dir /var/lib/tidemark --shell /usr/sbin/nologin tidemark
fi
if [ -e /etc/tidemark/tidemark.env ]; then # unless the administrator has removed it
  chgrp tidemark /etc/tidemark/tidemark.env
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl --no-block try-restart tidemark.service # after an upgrade, which does not wait for Redis
fi
