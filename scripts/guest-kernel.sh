#!/bin/sh
# Fetches Debian's kernel for virtual machines and unpacks it, with its modules, for
# guests that QEMU runs ("pathwise guest --help"). Nothing is installed: the machine
# does not boot it.
#
#   scripts/guest-kernel.sh DIR     unpack into DIR/boot and DIR/lib/modules
set -eu

say() { printf 'guest-kernel: %s\n' "$*" >&2; }
die() {
	say "$*"
	exit 1
}

# newest prints the package of the kernel that the metapackage represents.
newest() {
	LC_ALL=C apt-cache depends --important linux-image-cloud-amd64 2>/dev/null | sed -n 's/^ *Depends: *//p' | head -n 1
}

main() {
	[ $# = 1 ] || die "expected one argument, the directory to unpack into"
	PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
	[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || die "guests on virtual machines are built for Debian's amd64 alone"
	for program in apt-get apt-cache dpkg-deb depmod; do
		command -v "$program" >/dev/null || die "$program is missing: run make setup"
	done
	package=$(newest)
	if [ -z "$package" ]; then
		apt-get -q update >/dev/null 2>&1 || say "could not fetch the package lists (run as root to)"
		package=$(newest)
	fi
	[ -n "$package" ] || die "there is no package linux-image-cloud-amd64 here: name a kernel of yours by PATHWISE_QEMU_KERNEL, with its modules in ../lib/modules alongside it"
	release=${package#linux-image-}
	into=$1
	if [ -e "$into/boot/vmlinuz-$release" ] && [ -e "$into/lib/modules/$release/modules.dep" ]; then
		return 0
	fi
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 130' INT TERM HUP
	chmod 755 "$work" # apt fetches as a user of its own
	say "fetching $package"
	(cd "$work" && apt-get -q download "$package" >log 2>&1) || die "could not fetch $package: $(tail -n 1 "$work/log")"
	dpkg-deb -x "$work"/*.deb "$work/x"
	rm -rf "$into"
	mkdir -p "$into/boot" "$into/lib/modules"
	mv "$work/x/boot/vmlinuz-$release" "$into/boot/"
	for modules in "$work/x/lib/modules/$release" "$work/x/usr/lib/modules/$release"; do
		if [ -d "$modules" ]; then
			mv "$modules" "$into/lib/modules/"
		fi
	done
	depmod -b "$into" "$release"
}

main "$@"
