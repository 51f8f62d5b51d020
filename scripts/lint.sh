#!/bin/bash
# Checks formatting, line lengths, go vet, staticcheck, assignments without effect,
# parameters and results that nothing uses, functions that nothing reaches, shellcheck,
# go.mod of every module here and pictures drawn by text, prints everything that is wrong,
# and fails if anything is. golangci-lint would bring some two hundred modules for the same analyzers.
#
#   scripts/lint.sh LINTERS     the directory of the linters, as make lint builds them
set -uo pipefail
cd "$(dirname "$0")/.." || exit
linters=$(realpath "$1")
failed=0

# check runs a command and remembers whether it failed.
check() {
	"$@" || failed=1
}

unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
	printf 'not formatted (gofmt -w):\n%s\n' "$unformatted"
	failed=1
fi
check go test -count=1 -run '^TestLinesFit$' .
for module in . tools/flannel tools/wireguard-go tools/ferretdb tools/quic; do
	check go -C "$module" vet ./...
	(cd "$module" && "$linters/staticcheck" ./... && "$linters/ineffassign" ./... &&
		"$linters/unparam" -tests=false ./...) || failed=1
done
# What is left of a change without being reached by a program, tests not counted; of
# stamp, which others import, by its tests and examples. flow.Bucket is what the tests of
# four packages hold bucket.h against, and so is reached by tests alone.
module=pathwise.dev/pathwise
unreached=$("$linters/deadcode" -filter "^$module/(cmd|internal)" ./cmd/... | sed '/unreachable func: Bucket$/d' &&
	"$linters/deadcode" -test -filter "^$module/stamp\$" ./stamp) || failed=1
if [ -n "$unreached" ]; then
	printf 'nothing reaches (deadcode ./cmd/...):\n%s\n' "$unreached"
	failed=1
fi
for module in . tools/*/; do
	if [ -e "$module/go.mod" ]; then
		check go -C "$module" mod tidy -diff
	fi
done
check shellcheck scripts/*.sh .ci/run
if command -v python3 >/dev/null; then
	drawn=$(mktemp -d)
	check python3 docs/pictures/draw.py "$drawn"
	for picture in "$drawn"/*.svg; do
		check cmp "$picture" "docs/pictures/${picture##*/}"
	done
	rm -rf "$drawn"
fi
exit $failed
