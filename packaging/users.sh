#!/bin/sh
# The users of the roles: system accounts without a home or a login. The api
# role runs as carrel; members of the group carrel may use its socket.
set -eu
[ "$(id -u)" = 0 ] || { echo "users.sh: run this as root" >&2; exit 1; }

name=carrel
getent group "$name" >/dev/null || groupadd --system "$name"
getent passwd "$name" >/dev/null || useradd --system --gid "$name" \
	--home-dir /nonexistent --no-create-home \
	--shell /usr/sbin/nologin --comment "Carrel" "$name"
