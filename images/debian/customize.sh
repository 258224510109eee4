#!/bin/sh
# mmdebstrap's customize hook: gets the directory of the new system. The user
# that sandboxes run as, small size, nothing of the machine that built it.
#
#	mmdebstrap --variant=minbase --include=LIST \
#		--customize-hook=.../customize.sh bookworm -
set -eu
root=${1:?usage: customize.sh ROOT (mmdebstrap calls this)}

chroot "$root" useradd --uid 1000 --user-group --create-home \
	--shell /bin/bash user

printf 'LANG=C.UTF-8\n' > "$root/etc/default/locale"
printf '127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n' \
	> "$root/etc/hosts"

# mmdebstrap copies these from the machine it runs on.
: > "$root/etc/resolv.conf"
chmod 644 "$root/etc/resolv.conf"
echo sandbox > "$root/etc/hostname"
: > "$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id"

# apt inside a sandbox: no recommended extras, no second copy of packages, no
# translated lists.
cat > "$root/etc/apt/apt.conf.d/50image" <<-'EOF'
	APT::Install-Recommends "false";
	Acquire::Languages "none";
	Binary::apt::APT::Keep-Downloaded-Packages "false";
EOF
# Services are not started by package scripts: there is no init here.
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
# Documents are a fifth of the size; copyright notices stay.
cat > "$root/etc/dpkg/dpkg.cfg.d/50image" <<-'EOF'
	path-exclude=/usr/share/doc/*
	path-include=/usr/share/doc/*/copyright
	path-exclude=/usr/share/man/*
	path-exclude=/usr/share/info/*
	path-exclude=/usr/share/locale/*
EOF
find "$root/usr/share/doc" -type f ! -name copyright -delete
find "$root/usr/share/doc" -type l -delete
find "$root/usr/share/doc" -depth -type d -empty -delete
rm -rf "$root"/usr/share/man/* "$root"/usr/share/info/* \
	"$root"/usr/share/locale/*
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin \
	"$root"/var/cache/apt/archives/*.deb "$root"/var/cache/debconf/*-old \
	"$root"/var/log/*.log "$root"/var/log/apt

# `pip install` may change this system: it is the sandbox's own, and forgotten.
rm -f "$root"/usr/lib/python3*/EXTERNALLY-MANAGED
