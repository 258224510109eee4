#!/bin/sh
# man.sh CARREL DIRECTORY: the man pages and the scripts of completion, as the
# program itself writes them from its tables.
set -eu
carrel=$1 to=$2

rm -rf "$to"
mkdir -p "$to"
"$carrel" help --man >"$to/carrel.1"
"$carrel" help --pages | while read -r verb; do
	page=carrel-$(echo "$verb" | tr ' ' -)
	# shellcheck disable=SC2086 # "image build" are two words
	"$carrel" help --man $verb >"$to/$page.1"
done
"$carrel" completion bash >"$to/carrel.bash"
"$carrel" completion zsh >"$to/_carrel"
