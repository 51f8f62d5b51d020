#!/bin/bash
# Runs every fuzz target of the module for a while, one after the other: the Go
# tool takes only one at a time. What one finds does not end the run: the others
# are run all the same, and those that failed are named at the end.
#
#   scripts/fuzz.sh [TIME [PATTERN]]      20s each unless told otherwise; PATTERN
#                                         is looked for in PACKAGE/NAME
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-20s}
pattern=${2:-}

mapfile -t targets < <(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' internal cmd tools | sort -u)
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
	go -C "$dir" test -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 500x ${FUZZFLAGS:-} . || failed+=("$dir/$name")
done
if [ "$ran" -eq 0 ]; then
	echo "fuzz: no fuzz target matches \"$pattern\"" >&2
	exit 1
fi
if [ ${#failed[@]} -gt 0 ]; then
	printf 'fuzz: %s failed: its input is in testdata/fuzz\n' "${failed[@]}" >&2
	exit 1
fi
