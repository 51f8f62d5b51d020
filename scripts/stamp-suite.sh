#!/bin/sh
# Builds stamp-suite, an independent implementation of STAMP (RFC 8762, RFC
# 8972) in Rust, into bin/stamp-suite: the tests of stamp measure
# with it against ours. It does nothing if that version is there, and keeps what it
# has built in pathwise/stamp-suite-VERSION in XDG_CACHE_HOME, else in ~/.cache, as
# building takes minutes.
#
# It takes cargo from PATH or from $HOME/.cargo/bin. stamp-suite 1.0.0 says that it
# needs Rust 1.86, and builds with 1.85, which Debian 13 has, and Debian 12 as
# cargo-web, a newer Rust kept for building browsers (its own is 1.63). Releases
# 0.7 and 0.9 need 1.93.
set -eu

version=1.0.0
need=1.85

say() { printf 'stamp-suite: %s\n' "$*" >&2; }

cd "$(dirname "$0")/.."
program=bin/stamp-suite
kept=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/pathwise/stamp-suite-$version

is_it() { [ "$("$1" --version 2>/dev/null || true)" = "stamp-suite $version" ]; }

# Renamed into place, so that a process that runs it now keeps the old one.
put() {
	mkdir -p "$(dirname "$2")"
	cp "$1" "$2.new"
	mv "$2.new" "$2"
}

if is_it "$program"; then
	exit 0
fi
if is_it "$kept"; then
	put "$kept" "$program"
	exit 0
fi
PATH=$PATH:$HOME/.cargo/bin
if ! command -v cargo >/dev/null 2>&1 || ! command -v rustc >/dev/null 2>&1; then
	say "there is no cargo: install Rust $need or newer (Debian 13: apt-get install cargo gcc; Debian 12: cargo-web gcc)"
	exit 3
fi
have=$(rustc --version | cut -d ' ' -f 2)
if [ "$(printf '%s\n' "$have" "$need" | sort -V | head -n 1)" != "$need" ]; then
	say "Rust $have is too old: install $need or newer (Debian 13: apt-get install cargo gcc; Debian 12: cargo-web gcc)"
	exit 3
fi

# cargo install puts programs into ROOT/bin and notes them in ROOT.
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
trap 'exit 130' INT TERM HUP
CARGO_TARGET_DIR=$root/target cargo install --quiet --locked --ignore-rust-version --version "$version" --root "$root" stamp-suite
put "$root/bin/stamp-suite" "$program"
put "$root/bin/stamp-suite" "$kept" || say "not kept for the next checkout"
