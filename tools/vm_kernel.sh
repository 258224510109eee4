#!/bin/sh
# The kernel of microVMs: Debian's cloud kernel, unpacked and not installed, and
# the modules that a guest needs.  vm_kernel.sh OUT
#
#	OUT/vmlinux	uncompressed: emulation decompresses slowly
#	OUT/m/*.ko	and OUT/m/order, the order to load them in
#	OUT/version	of the package, and what was asked for
set -eu
out=${1:?usage: vm_kernel.sh OUT}
modules='virtio_mmio virtio_console virtio_blk erofs overlay' # what they need follows

package=$(apt-cache depends linux-image-cloud-amd64 |
	sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
# Without lists of packages one that was made before is as good as any.
[ -n "$package" ] || [ ! -s "$out/vmlinux" ] || exit 0
[ -n "$package" ] || {
	echo "vm_kernel.sh: apt knows no linux-image-cloud-amd64 (apt-get update?)" >&2
	exit 1
}
version=$(apt-cache policy "$package" | sed -n 's/.*Candidate: //p')
[ "$(cat "$out/version" 2>/dev/null)" != "$package $version: $modules" ] || exit 0

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp"
(cd "$tmp" && apt-get -q download "$package" >/dev/null 2>&1) || {
	echo "vm_kernel.sh: cannot download $package" >&2
	exit 1
}
dpkg-deb -x "$tmp"/*.deb "$tmp/root"
# Debian 13 packages it below /usr.
tree=$(echo "$tmp"/root/usr/lib/modules/*)
[ -d "$tree" ] || tree=$(echo "$tmp"/root/lib/modules/*)

# The compressed kernel is in the middle of the file, behind its magic number.
extract() {
	# shellcheck disable=SC2013 # numbers
	for at in $(LC_ALL=C grep -obUaP "$1" "$image" | cut -d: -f1); do
		tail -c +$((at + 1)) "$image" | $2 >"$tmp/vmlinux" 2>/dev/null || true
		[ "$(head -c 4 "$tmp/vmlinux" | tail -c 3)" != ELF ] || return 0
	done
	return 1
}
image=$(echo "$tmp"/root/boot/vmlinuz-*)
extract '\x02\x21\x4c\x18' 'lz4 -dc' || extract '\x28\xb5\x2f\xfd' 'zstd -dcq' ||
	extract '\xfd7zXZ\x00' 'xz -dc' || extract '\x1f\x8b\x08' 'gzip -dc' || {
	echo "vm_kernel.sh: no kernel found in $image" >&2
	exit 1
}

rm -rf "$out"
mkdir -p "$out/m"

# Which module needs which differs from kernel to kernel: each says it itself,
# also that it needs none.
needs() {
	objcopy -O binary --only-section=.modinfo "$1" "$tmp/modinfo"
	tr '\0' '\n' <"$tmp/modinfo" >"$tmp/words"
	grep -q '^depends=' "$tmp/words" || { echo "vm_kernel.sh: what does $1 need?" >&2; exit 1; }
	sed -n 's/^depends=//p' "$tmp/words" | tr ',' ' '
}

# take NAME: behind all that it needs. A built-in module needs no loading.
taken=
take() {
	case " $taken " in *" $1 "*) return ;; esac
	taken="$taken $1"
	name=$(echo "$1" | sed 's/_/[-_]/g')
	! grep -q "/$name\.ko\$" "$tree/modules.builtin" || return 0
	file=$(find "$tree" -name "$name.ko*" | head -n 1)
	[ -n "$file" ] || { echo "vm_kernel.sh: no module $1" >&2; exit 1; }
	case $file in
	*.xz) xz -dc "$file" >"$out/m/$1.ko" ;;
	*.zst) zstd -dcq "$file" >"$out/m/$1.ko" ;;
	*) cp "$file" "$out/m/$1.ko" ;;
	esac
	need=$(needs "$out/m/$1.ko")
	for m in $need; do
		take "$m"
	done
	strip --strip-debug "$out/m/$1.ko"
	echo "$1.ko" >>"$out/m/order"
}
for module in $modules; do
	take "$module"
done
cp "$tmp/vmlinux" "$out/vmlinux"
echo "$package $version: $modules" >"$out/version"
