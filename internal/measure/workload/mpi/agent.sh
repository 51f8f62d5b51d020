#!/bin/sh
# Open MPI's plm_rsh_agent: runs a command on a "machine", which is a pod's
# address, as ssh would. Next to it is the list "pods" of addresses and
# network namespaces. The host name is the pod's own, or Open MPI would take
# all pods for one machine.
set -eu
here=$(dirname "$0")
pod=$1
shift
ns=$(sed -n "s|^$pod ||p" "$here/pods")
[ -n "$ns" ] || {
	echo "agent: no pod has the address $pod" >&2
	exit 1
}
export TMPDIR="$here"
exec nsenter --net="$ns" unshare --uts sh -c 'hostname "$0"; eval "$1"' "$pod" "$*"
