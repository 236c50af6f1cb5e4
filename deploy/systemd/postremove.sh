#!/bin/sh
# The user and the data in /var/lib/tidemark stay.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
