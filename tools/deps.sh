#!/bin/sh
# Which packages of packaging/packages.txt are missing, and installing them.
#
#	deps.sh check SECTION...	says what is missing and how to get it
#	deps.sh install SECTION...	installs it (root)
#	deps.sh list SECTION...		prints the names
set -eu
cd "$(dirname "$0")/.."

usage="usage: tools/deps.sh check|install|list SECTION..."
verb=${1:?$usage}
shift
[ $# -gt 0 ] || { echo "$usage" >&2; exit 2; }

release=$(sed -n 's/^VERSION_ID="*\([0-9]*\).*/\1/p' "${OS_RELEASE:-/etc/os-release}")
wanted=$(for section in "$@"; do
	sed -nE "s/^$section(@$release)? ([^#]*).*/\2/p" packaging/packages.txt |
		while read -r package command; do
			[ -n "$command" ] && command -v "$command" >/dev/null ||
				echo "$package"
		done
done)
[ "$verb" = list ] && { echo "$wanted"; exit 0; }

# Without dpkg we cannot tell; the compiler will.
command -v dpkg-query >/dev/null || exit 0
# A package counts as present under the names it provides too: the library
# packages of Debian 13 have other names (libssl3t64) and provide the old ones.
have=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}, ${Provides}\n' |
	sed -n 's/^.i. *//p' | sed 's/([^)]*)//g' | tr -s ', ' '\n')
missing=
for p in $wanted; do
	printf '%s\n' "$have" | grep -qx -- "$p" || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

if [ "$verb" = check ]; then
	echo "missing packages:$missing" >&2
	echo "install them as root with: make deps" >&2
	exit 1
fi
if [ "$(id -u)" != 0 ]; then
	echo "missing packages:$missing" >&2
	echo "run this as root, or: sudo apt-get install$missing" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # a list of words
apt-get install -y --no-install-recommends $missing && exit 0
apt-get update
# shellcheck disable=SC2086 # a list of words
exec apt-get install -y --no-install-recommends $missing
