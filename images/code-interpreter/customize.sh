#!/bin/sh
# mmdebstrap's customize hook: what Debian's image has, and the server.
set -eu
root=${1:?usage: customize.sh ROOT (mmdebstrap calls this)}
here=$(cd "$(dirname "$0")" && pwd)
"$here/../debian/customize.sh" "$root"

install -d "$root/opt/code-interpreter"
install -m 644 "$here"/server/* "$root/opt/code-interpreter/"
chmod 755 "$root/opt/code-interpreter/server.py"
chroot "$root" python3 -m compileall -q /opt/code-interpreter
# What "python" means to those who do not say python3.
[ -e "$root/usr/bin/python" ] || ln -s python3 "$root/usr/bin/python"
# matplotlib looks at all fonts when it is used first, which takes seconds.
chroot "$root" runuser -u user -- env HOME=/home/user MPLBACKEND=agg \
	python3 -c 'import matplotlib.font_manager'
