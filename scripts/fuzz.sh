#!/bin/bash
# Runs every fuzz target of the module for a while, one after the other: the Go
# tool takes only one at a time. The first that finds something ends the run.
#
#   scripts/fuzz.sh [TIME]      20s each unless told otherwise
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t targets < <(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' internal cmd tools | sort -u)
if [ ${#targets[@]} -eq 0 ]; then
	echo "fuzz: there is no fuzz target" >&2
	exit 1
fi
for target in "${targets[@]}"; do
	file=${target%%:*}
	name=${target##*func }
	echo "== $name (${file%/*})"
	go -C "${file%/*}" test -run '^$' -fuzz "^$name\$" -fuzztime "${1-20s}" .
done
