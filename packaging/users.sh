#!/bin/sh
# The users of the roles: system accounts without a home or a login. The api
# role runs as carrel; members of the group carrel may use its socket. The
# scribe runs as carrel-log; members of that group may read the log.
set -eu
[ "$(id -u)" = 0 ] || { echo "users.sh: run this as root" >&2; exit 1; }

account() { # name, comment
	getent group "$1" >/dev/null || groupadd --system "$1"
	getent passwd "$1" >/dev/null || useradd --system --gid "$1" \
		--home-dir /nonexistent --no-create-home \
		--shell /usr/sbin/nologin --comment "$2" "$1"
}

account carrel "Carrel"
account carrel-log "Carrel, its log"
account carrel-gate "Carrel, its gate"
