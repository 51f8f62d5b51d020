#!/bin/sh
# Runs the tests of the eBPF programs that agents load on the oldest kernel that they are
# for, Linux 6.8 as Ubuntu 24.04 came with, in a virtual machine: verifiers differ, and that
# of this machine's kernel may take what an earlier one does not.
#
#   scripts/old-kernel.sh DIR [TEST]   keep the kernel in DIR; run the tests that match TEST
#
# Tests of upgrades are left out: programs of former versions, which they load, do not load there. Connections from
# before an agent are not observed there (Linux 6.12).
set -eu

release=6.8.0-31-generic
from=http://archive.ubuntu.com/ubuntu/pool/main/l

say() { printf 'old-kernel: %s\n' "$*" >&2; }
die() {
	say "$*"
	exit 1
}

# bring unpacks a package that has that SHA-256 sum.
bring() {
	deb=$work/${1##*/}
	curl -fsS --retry 3 -o "$deb" "$from/$1" || die "could not fetch $from/$1"
	echo "$2  $deb" | sha256sum -c --quiet - || die "$1 is not what it was: expected the SHA-256 sum $2"
	dpkg-deb -x "$deb" "$work/x"
}

# fetch brings the kernel and its modules into a directory.
fetch() {
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 130' INT TERM HUP
	say "fetching Linux $release"
	bring "linux-signed/linux-image-${release}_6.8.0-31.31_amd64.deb" fd2ed023c84163e62c73d3b7b613a9b004bd31e335641c23d42bd249e489fbe6
	bring "linux/linux-modules-${release}_6.8.0-31.31_amd64.deb" 3f17f2c279257eb50e40da44390bdf8272c440ca078831c348773d1314b5c2fe
	rm -rf "$1"
	mkdir -p "$1/lib"
	mv "$work/x/boot" "$1/"
	mv "$work/x/lib/modules" "$1/lib/"
	depmod -b "$1" "$release"
}

# run runs a package's tests in a guest.
run() {
	say "testing $1"
	go test -c -o "$dir/run.test" "$1"
	(cd "$1" && "$root/bin/pathwise" guest exec -q --kernel qemu --memory 3G -- sh -c "
		modprobe nf_tables
		'$dir/run.test' -test.timeout 1h -test.run '$test' -test.skip '^(TestFormer.*|TestVersionsOfALayout|TestUpgrades|TestOldConnectionsAreTakenUp)\$'")
}

main() {
	[ $# = 1 ] || [ $# = 2 ] || die "expected a directory for the kernel, and at most the name of a test"
	PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
	root=$(pwd) test=${2:-.}
	mkdir -p "$1"
	dir=$(cd "$1" && pwd)
	[ -e "$dir/$release/lib/modules/$release/modules.dep" ] || fetch "$dir/$release"
	export PATHWISE_QEMU_KERNEL="$dir/$release/boot/vmlinuz-$release"
	run ./internal/steer/telemetry
	run ./internal/steer/dataplane
}

main "$@"
