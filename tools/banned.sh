#!/bin/sh
# Functions that we do not call: they cannot be used safely, or start a shell,
# or hide an error. The right-hand side is what to use instead.
set -eu
cd "$(dirname "$0")/.."

banned='
strcpy str_copy()
strcat snprintf() or struct buf
strncpy str_copy()
strncat snprintf() or struct buf
sprintf snprintf()
vsprintf vsnprintf()
gets fgets()
strtok strsep() on a copy
atoi parse_u64()
atol parse_u64()
atoll parse_u64()
atof parse_milli()
system fork and exec of a fixed argv
popen fork and exec of a fixed argv
alloca a buffer of fixed size
mktemp mkostemp()
tmpnam mkostemp()
tempnam mkostemp()
readdir_r readdir()
asctime clock_stamp()
ctime clock_stamp()
'
bad=0
files=$(find src tools -name '*.[ch]' | sort)
while read -r name instead; do
	[ -n "$name" ] || continue
	# Comments and strings may talk about them.
	# shellcheck disable=SC2086 # a list of words
	hits=$(grep -nE "(^|[^A-Za-z0-9_.>])${name} *\(" $files |
		grep -vE '^[^:]*:[0-9]+:[[:space:]]*(/?\*|//)' |
		grep -vE "\"[^\"]*${name} *\([^\"]*\"" || true)
	[ -n "$hits" ] || continue
	echo "$hits" | sed "s/\$/   <- $name is banned: use $instead/"
	bad=1
done <<EOF
$banned
EOF
exit $bad
