#!/bin/bash
# Runs every fuzz target of the module for a while, one after the other: the Go
# tool takes only one at a time. What one finds does not end the run: the others
# are run all the same, and those that failed are named at the end.
#
#   scripts/fuzz.sh [TIME [PATTERN]]      20s each unless told otherwise; PATTERN
#                                         is looked for in PACKAGE/NAME
#
# With FuzzPrograms goes a run of TestPrograms with 1,000,000 packets, or PATHWISE_PACKETS,
# through the eBPF programs. Both need root: the run asks for it through sudo, the target
# is skipped by other users.
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-20s}
pattern=${2:-}

mapfile -t targets < <(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' internal cmd stamp tools | sort -u)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# over is whether nothing failed but the tool, which now and then takes the end of its time
# for an error: it stops before its own context has heard of it (internal/fuzz of Go 1.26).
over() { grep -q '^ *context deadline exceeded$' "$log" && ! grep -q 'Failing input' "$log"; }

failed=()
ran=0
for target in "${targets[@]}"; do
	dir=${target%%:*}
	dir=${dir%/*}
	name=${target##*func }
	if [[ ! $dir/$name =~ $pattern ]]; then
		continue
	fi
	ran=$((ran + 1))
	echo "== $name ($dir)"
	# To make an input that is only interesting smaller may take a minute by default,
	# in which nothing is tried.
	# shellcheck disable=SC2086 # words on purpose
	go -C "$dir" test -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 500x ${FUZZFLAGS:-} . 2>&1 | tee "$log" ||
		over || failed+=("$dir/$name")
done
programs=internal/steer/dataplane
if [[ $programs/FuzzPrograms =~ $pattern ]]; then
	ran=$((ran + 1))
	echo "== TestPrograms ($programs)"
	root=()
	[ "$(id -u)" -eq 0 ] || root=(-exec "sudo -E env PATH=$PATH")
	PATHWISE_PACKETS=${PATHWISE_PACKETS:-1000000} go -C "$programs" test -count=1 -timeout 30m -v -run '^TestPrograms$' "${root[@]}" . || failed+=("$programs/TestPrograms")
fi
if [ "$ran" -eq 0 ]; then
	echo "fuzz: no fuzz target matches \"$pattern\"" >&2
	exit 1
fi
if [ ${#failed[@]} -gt 0 ]; then
	printf 'fuzz: %s failed: its input is in testdata/fuzz, or its seed above\n' "${failed[@]}" >&2
	exit 1
fi
