#!/bin/bash
# Tries Pathwise on a cluster of two nodes: agents from "pathwise kube install", pods on three
# networks, 200 switches under TCP, UDP and ICMP, black holes on the network in use, agents that
# are killed, another's PathNode, a forged annotation, a pod that is made again, and that nothing
# is left. Prints PASS or FAIL for each, and fails if any does.
#
#   scripts/kube-test.sh [--keep]      --keep leaves the cluster up
# shellcheck disable=SC2317 # verdict calls functions by their names
set -uo pipefail
cd "$(dirname "$0")/.." || exit
bed=scripts/kube-bed.sh
k() { "$bed" kubectl "$@"; }
failed=0 began=$SECONDS
work=$(mktemp -d)
[ "${1-}" = --keep ] || trap '"$bed" down; rm -r "$work"' EXIT

say() { printf '%4d s  %s\n' $((SECONDS - began)) "$*"; }
verdict() { # WHAT COMMAND ...: PASS if the command succeeds
	local what=$1
	shift
	if "$@" >"$work/verdict" 2>&1; then say "PASS  $what"; else
		say "FAIL  $what"
		tail -20 "$work/verdict"
		failed=1
	fi
}
agent() { # COMMAND ...: asks the agent of node 1
	[ -n "${asked-}" ] ||
		asked=$(k -n pathwise get pod -l app.kubernetes.io/component=agent --field-selector spec.nodeName=pwk-n1 -o name)
	k -n pathwise exec "$asked" -- /pathwise "$@" --dir /run/pathwise/agent
}
eventually() { # SECONDS COMMAND ...
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.3
	done
}

"$bed" up || exit 1
say "PASS  cluster of two nodes is up"

installed=$SECONDS
bin/pathwise kube install --dry-run --image pathwise.test/pathwise:test --network default/fast,default/bulk \
	>"$work/install.yaml" || exit 1
k create namespace pathwise >/dev/null
openssl rand -hex 32 >"$work/keys"
k -n pathwise create secret generic pathwise-key --from-file="$work/keys" >/dev/null
verdict "manifests are applied" k apply --server-side --force-conflicts -f "$work/install.yaml"
k wait --for=condition=Established crd/pathnetworks.pathwise.dev --timeout=20s >/dev/null
verdict "workload is applied" eventually 10 k apply -f scripts/kube-workload.yaml
verdict "agents are Ready" k -n pathwise rollout status daemonset/pathwise-agent --timeout=60s
say "      $((SECONDS - installed)) s from install to Ready"
verdict "pods are Ready" k wait --for=condition=Ready pod/client pod/server --timeout=60s
verdict "each node's agent writes of its pods" eventually 20 sh -c \
	"[ \"\$($bed kubectl get pathnode -o jsonpath='{.items[*].status.pods}')\" = '1 1' ]"

# The networks that are up for the pair, and the one that it is on, by the agent of node 1.
up() { agent paths -o json | jq -r '.[] | select(.pair == "default/client>default/server" and .state == "up") | .network'; }
on() { agent paths -o json | jq -r '.[] | select(.pair == "default/client>default/server" and .active) | .network'; }
three() { [ "$(up | sort -u | wc -l)" = 3 ]; }

traffic() { # KIND SECONDS FLAGS ...: from the client to the server, in the background
	local kind=$1 seconds=$2 ip
	shift 2
	ip=$(k get pod server -o jsonpath='{.status.podIP}')
	k exec client -c main -- /pathwise generate stream "$kind" --duration "${seconds}s" "${@/#@/$ip}" \
		>"$work/$kind.json" 2>"$work/$kind.err" &
}
whole() { # KIND: nothing of its traffic is lost
	jq -c '{counts, errors}' "$work/$1.json" &&
		jq -e '(.errors.reasons // {}) == {} and (.counts.connections.lost // 0) == 0 and (.counts.datagrams.lost // 0) == 0 and
		(.counts.operations // .counts.datagrams.received) > 1000' \
			"$work/$1.json"
}

traffic rr 15 --target @:7002 --think 1ms
verdict "the pair is up on all three networks" eventually 12 three
wait

switches() {
	local n
	for n in $(seq 200); do
		agent switch default/client default/server "default/$([ $((n % 2)) = 1 ] && echo fast || echo bulk)" || return 1
	done
	[ -n "$(jobs -r)" ] || { echo 'the traffic has ended before' && return 1; }
}
traffic rr 150 --target @:7002 --think 1ms --connections 2
# What is lost of datagrams, the server says; it ends with its input.
sleep 155 | k exec -i server -c rr -- /pathwise generate stream serve udp --listen 0.0.0.0:7003 2>/dev/null | sed '/^listening/d' \
	>"$work/received.json" &
sleep 2
traffic udp 150 --target @:7003 --interval 2ms
traffic icmp 150 --target @ --interval 20ms
generators=$(jobs -p)
eventually 20 three
verdict "200 switches are taken" switches
# shellcheck disable=SC2086 # one word for each
wait $generators
for kind in rr received icmp; do
	verdict "$kind: nothing was lost" whole $kind
	say "      $(jq -c '.counts | del(.connections)' "$work/$kind.json")"
done

holes() {
	local n dev
	for n in 1 2 3 4 5; do
		agent switch default/client default/server default/fast || return 1
		sleep 1.5
		dev=$([ "$(on)" = default/fast ] && echo eth1 || echo eth2)
		"$bed" node 1 nft "table netdev hole { chain c { type filter hook ingress device $dev priority 0; policy drop; }; }" &&
			sleep 3 && "$bed" node 1 nft delete table netdev hole || return 1
		sleep 4
	done
}
left() { # no gap is as long as a black hole
	jq -e '[.gaps.list[]? | select(.to_ns - .from_ns > 2.5e9)] == []' "$work/rr.json"
}
traffic rr 70 --target @:7002 --think 1ms --gap 15ms
generators=$!
eventually 20 three
verdict "five black holes" holes
wait "$generators"
verdict "each black hole was left" left
say "      longest gaps, in ms: $(jq -c '[.gaps.list[]? | (.to_ns - .from_ns) / 1e6 | floor] | sort | .[-10:]' "$work/rr.json")"

# Agents that are killed leave flows where they are; those that follow take them over.
traffic rr 25 --target @:7002 --think 1ms --connections 2
generators=$!
eventually 20 three
agent switch default/client default/server default/fast >/dev/null
verdict "agents are killed" k -n pathwise delete pod -l app.kubernetes.io/component=agent --grace-period=0 --force
asked=
verdict "others are Ready" k -n pathwise rollout status daemonset/pathwise-agent --timeout=60s
wait "$generators"
verdict "rr: nothing was lost as agents were killed" whole rr

refused() {
	local said
	said=$(k annotate pathnode pwk-n1 forged=yes 2>&1) && return 1
	grep -q 'and by nobody else' <<<"$said"
}
verdict "nobody else writes a PathNode" refused

forge() { # an annotation that gives another pod's address is believed by no agent
	local status
	status=$(k get pod client -o jsonpath='{.metadata.annotations.k8s\.v1\.cni\.cncf\.io/network-status}')
	k annotate pod client --overwrite "k8s.v1.cni.cncf.io/network-status=${status/10.11.1./10.11.2.}" &&
		eventually 45 sh -c "$bed kubectl get pathnode pwk-n1 -o jsonpath='{.status.refusals}' | grep -q 'says \[10.11.2'" &&
		k get pathnode pwk-n1 -o jsonpath='{.spec.pods[*].name}' | grep -vq default/client
}
verdict "a forged network-status is refused" forge

again() { # a pod of the same name
	k delete pod client --wait && eventually 10 k apply -f scripts/kube-workload.yaml &&
		k wait --for=condition=Ready pod/client --timeout=60s
}
verdict "the pod is made again" again
traffic rr 20 --target @:7002 --think 1ms
verdict "and is steered again" eventually 15 three
wait

bin/pathwise kube uninstall --dry-run >"$work/uninstall.yaml"
verdict "uninstall" k delete --ignore-not-found --timeout=90s -f "$work/uninstall.yaml"
nothing() {
	! k get namespace,crd,clusterrole,clusterrolebinding,validatingadmissionpolicy -o name | grep pathwise
}
verdict "no object is left" nothing
exit $failed
