#!/bin/bash
# Runs a command in a new Debian that has nothing but make, with a copy of the
# working tree and this machine's Go tool: finds what Pathwise needs and does
# not say so. Needs root and debootstrap; the network is this machine's.
#
#   scripts/clean-root.sh [-k] COMMAND [ARGUMENT...]
#
#   -k   keep the root, and say where it is
#
# SUITE (default: this machine's) and MIRROR choose the Debian; SUITE=noble with
# an Ubuntu mirror works where debootstrap has Ubuntu's keys. The command runs
# in a mount namespace of its own, so no mount is left behind, even by a kill.
set -euo pipefail

die() {
	echo "clean-root: $*" >&2
	exit 1
}

keep=
if [ "${1-}" = -k ]; then
	keep=1
	shift
fi
[ $# -gt 0 ] || die "expected a command, as in: scripts/clean-root.sh make test"
[ "$(id -u)" = 0 ] || die "this needs root: run as root, for example with sudo"
command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"
command -v go >/dev/null || die "the go command is missing: put it on PATH"

tree=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=/dev/null
suite=${SUITE-$(. /etc/os-release && echo "$VERSION_CODENAME")}
# shellcheck disable=SC2016 # $(SITE) is for apt-get
mirror=${MIRROR-$(apt-get indextargets --format '$(SITE)' "Codename: $suite" 2>/dev/null | head -n 1)}
[ -n "$mirror" ] || die "apt knows no mirror of $suite: name one in MIRROR"
goroot=$(go env GOROOT)

root=$(mktemp -d /var/tmp/pw-clean.XXXXXX)
chmod 755 "$root"

# strays lists the processes that still run in the root.
strays() {
	local p
	for p in /proc/[0-9]*; do
		if [[ $(readlink "$p/root") = "$root" ]]; then
			echo "${p#/proc/}"
		fi
	done 2>/dev/null
}

finish() {
	local pid
	for pid in $(strays); do
		echo "clean-root: process $pid was left running: $(tr '\0' ' ' <"/proc/$pid/cmdline")" >&2
		kill -KILL "$pid" || true # it may have ended meanwhile
	done
	if [ -n "$keep" ]; then
		echo "clean-root: kept $root" >&2
	else
		rm -rf --one-file-system "$root"
	fi
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

log=$root.log
if ! debootstrap --variant=minbase --include=make "$suite" "$root" "$mirror" >"$log" 2>&1; then
	tail -n 15 "$log" >&2
	rm -f "$log"
	die "debootstrap of $suite from $mirror failed: its last words are above"
fi
rm -f "$log"

# An installed Debian has the updates and what its security team brings too; its
# lists are not fetched yet.
if [ -z "${MIRROR-}" ]; then
	# shellcheck disable=SC2016 # as above
	apt-get indextargets --format 'deb $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
		grep -E " $suite(-updates|-security)? " | sort -u >"$root/etc/apt/sources.list"
	rm -rf "$root"/var/lib/apt/lists/*
fi

# The ways of this machine into the network: apt's proxies and checks, name
# servers, certificate authorities. The latter not where Debian has them, as
# the package ca-certificates is one of those that may be missing.
apt-config dump Acquire | grep -E '^Acquire::(https?|Check-|Retries|ForceIP)' >"$root/etc/apt/apt.conf.d/99clean-root" || true
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
authorities=${SSL_CERT_FILE-/etc/ssl/certs/ca-certificates.crt}
if [ -e "$authorities" ]; then
	cp -L "$authorities" "$root/etc/clean-root.crt"
fi

cargo=${CARGO_HOME-$HOME/.cargo}/config.toml
if [ -e "$cargo" ]; then
	mkdir -p "$root/root/.cargo"
	cp -L "$cargo" "$root/root/.cargo/"
fi

mkdir -p "$root/src" "$root/usr/local/go"
git -C "$tree" ls-files -co --exclude-standard -z |
	(cd "$tree" && while IFS= read -r -d '' f; do if [ -e "$f" ]; then printf '%s\0' "$f"; fi; done) |
	tar -C "$tree" --null -T - -cf - | tar -C "$root/src" --no-same-owner -xf -

variables=(HOME=/root "TERM=${TERM-dumb}" LANG=C.UTF-8 SSL_CERT_FILE=/etc/clean-root.crt
	PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
if [ -e "$root/etc/clean-root.crt" ]; then
	variables+=(CARGO_HTTP_CAINFO=/etc/clean-root.crt) # cargo heeds no SSL_CERT_FILE
fi
for name in GOPROXY GONOPROXY GOPRIVATE GOSUMDB GONOSUMDB GOINSECURE GOTOOLCHAIN GOFLAGS; do
	variables+=("$name=$(go env "$name")")
done
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY PATHWISE_ALLOW_SKIP; do
	if [ -n "${!name-}" ]; then
		variables+=("$name=${!name}")
	fi
done

# The single quotes are meant: the script is for the shell in the namespace.
# shellcheck disable=SC2016
unshare --mount --propagation private -- bash -euc '
	root=$1 goroot=$2
	shift 2
	# A mount point of its own, as runc wants the root directory to be.
	mount --bind "$root" "$root"
	mount --bind "$goroot" "$root/usr/local/go"
	for dir in /proc /sys /dev; do
		mount --rbind "$dir" "$root$dir"
	done
	mount -t tmpfs -o mode=755 tmpfs "$root/run"
	mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
	exec chroot "$root" env -i -C /src "$@"
' clean-root "$root" "$goroot" "${variables[@]}" "$@"
