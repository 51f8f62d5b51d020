#!/bin/bash
# Tries Pathwise on a cluster of two nodes: agents from "pathwise kube install", pods on three
# networks, 200 switches under TCP, UDP and ICMP, black holes on the network in use, agents that
# are killed, policies that come and go, another's PathNode, a forged annotation, a pod that is made
# again, and that nothing is left. Prints PASS or FAIL for each, and fails if any does.
#
#   scripts/kube-test.sh [--keep] [--proxy MODE] [PART ...]
#
# Without a PART all are run: own switches holes rules away killed lease bench policies enforced asks forged
# sandbox restart images scale caps helm uninstall tutorial. --keep leaves the cluster up, and goes on with one that
# is. --proxy is the mode of kube-proxy, nftables or iptables, of a cluster that is built.
# PATHWISE_KUBE_HOLES says how many black holes (20), PATHWISE_KUBE_RULES how many rules in the
# receiving pod (20), PATHWISE_KUBE_POLICIES how many policies (10), PATHWISE_KUBE_AWAY for how many
# seconds the API server is away (120), PATHWISE_KUBE_LEASES how many times agents end, each way (20) of
# PATHWISE_KUBE_ENDS ("killed drained"),
# PATHWISE_KUBE_FORMER a program of a former version, without which the part images is left out, and
# PATHWISE_KUBE_ENFORCER multi-networkpolicy-iptables (Network Plumbing Working Group) as a static program,
# without which the part enforced is.
# shellcheck disable=SC2317,SC2016 # verdict calls functions by their names; a node's shell expands
set -uo pipefail
cd "$(dirname "$0")/.." || exit
bed=scripts/kube-bed.sh
k() { "$bed" kubectl "$@"; }
cache=${PATHWISE_KUBE:-${HOME}/.cache/pathwise/kube}
failed=0 began=$SECONDS
work=$(mktemp -d)
keep=
while :; do
	case ${1-} in
	--keep) keep=1 && shift ;;
	--proxy) export PATHWISE_KUBE_PROXY=${2-} && shift 2 ;;
	*) break ;;
	esac
done
case ${PATHWISE_KUBE_PROXY:=nftables} in nftables | iptables) ;; *)
	echo "kube-test: --proxy $PATHWISE_KUBE_PROXY: expected nftables or iptables" >&2
	exit 2
	;;
esac
parts=" $* "
known=' own switches holes rules away killed lease bench policies enforced asks forged sandbox restart images scale caps'
known+=' helm uninstall tutorial '
for name in "$@"; do
	[[ $known = *" $name "* ]] || { echo "kube-test: no part $name: expected$known" >&2 && exit 2; }
done
trap '[ -n "$keep" ] || "$bed" down; rm -r "$work"' EXIT
part() { # NAME: whether it is to be run
	[ "$parts" = "  " ] || [[ $parts = *" $1 "* ]] || return 1
	say "---   $1, at load $(cut -d' ' -f1-3 /proc/loadavg)"
}

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
ask() { "$bed" pathwise "$@"; } # what "pathwise kube" has, from outside the cluster
eventually() { # SECONDS COMMAND ...
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.3
	done
}

with=(--image pathwise.test/pathwise:test --network "default/fast,default/bulk")
if [ -z "$keep" ] || ! k get nodes >/dev/null 2>&1; then
"$bed" up || exit 1
say "PASS  cluster of two nodes is up"
verdict "check finds that nothing lacks" ask check
installed=$SECONDS
verdict "install" ask install "${with[@]}"
verdict "install again changes nothing" ask install "${with[@]}"
k wait --for=condition=Established crd/pathnetworks.pathwise.dev --timeout=20s >/dev/null
verdict "workload is applied" eventually 10 k apply -f scripts/kube-workload.yaml
verdict "agents are at work" ask status --wait --timeout 60s
say "      $((SECONDS - installed)) s from install to agents at work"
verdict "pods are Ready" k wait --for=condition=Ready pod/client pod/server --timeout=60s
fi
verdict "each node's agent writes of its pods" eventually 20 sh -c \
	"[ \"\$($bed kubectl get pathnode -o jsonpath='{.items[*].status.pods}')\" = '1 1' ]"

# The networks that are up for the pair, and the one that it is on.
up() { ask paths -o json client | jq -r '.[] | select(.pair == "default/client>default/server" and .state == "up") | .network'; }
on() { ask paths -o json client | jq -r '.[] | select(.pair == "default/client>default/server" and .active) | .network' | sort -u; }
is_on() { [ "$(on)" = "$1" ]; }
three() { [ "$(up | sort -u | wc -l)" = 3 ]; }

traffic() { # KIND SECONDS FLAGS ...: from the client to the server, in the background
	local kind=$1 seconds=$2 ip
	shift 2
	ip=$(k get pod server -o jsonpath='{.status.podIP}')
	k exec client -c main -- /pathwise generate stream "$kind" --duration "${seconds}s" "${@/#@/$ip}" \
		>"$work/$kind.json" 2>"$work/$kind.err" &
}
under_way() { # the traffic goes on: what came after it has met none
	[ -n "$(jobs -r)" ] || { echo 'the traffic has ended before'; return 1; }
}
whole() { # KIND: nothing of its traffic is lost
	jq -c '{counts, errors}' "$work/$1.json" &&
		jq -e '(.errors.reasons // {}) == {} and (.counts.connections.lost // 0) == 0 and (.counts.datagrams.lost // 0) == 0 and
		(.counts.operations // .counts.datagrams.received) > 1000' \
			"$work/$1.json"
}

left() { # MILLISECONDS: no gap is as long
	jq -e --argjson most "$1" '[.gaps.list[]? | select(.to_ns - .from_ns > $most * 1e6)] == []' "$work/rr.json"
}
gaps() { # FAULTS: the longest gaps, one for each fault, and of these the p95
	jq -c --argjson n "$1" '[.gaps.list[]? | (.to_ns - .from_ns) / 1e6 | floor] | sort | .[-$n:] |
		"\(.), p95 \(.[((length - 1) * 0.95) | ceil] // 0)"' "$work/rr.json" | tr -d '"'
}
p95_under() { # MILLISECONDS FAULTS: the p95 that gaps tells is
	local told
	told=$(gaps "$2")
	echo "$told"
	[ -n "$told" ] && [ "${told##*p95 }" -lt "$1" ]
}
traffic rr 15 --target @:7002 --think 1ms
verdict "the pair is up on all three networks" eventually 12 three
wait

if part own; then
# The program's own test, and its archive.
own() { ask test --switches "${PATHWISE_KUBE_SWITCHES:-200}" >"$work/own" 2>&1; }
verdict "kube test" own
sed 's/^/        /' "$work/own"
broken_off() { # a test that is interrupted leaves nothing, and neither passes nor fails
	env --default-signal=INT "$bed" pathwise test >"$work/broken" 2>&1 &
	local p=$! status
	eventually 60 grep -q 'two pods on two nodes are Ready' "$work/broken"
	pkill -INT -P "$p" || return 1
	wait "$p"
	status=$?
	cat "$work/broken"
	[ "$status" = 130 ] && ! k get namespace pathwise-test >/dev/null 2>&1
}
verdict "kube test is interrupted, and leaves nothing" broken_off
dumped() {
	local key file
	rm -f "$work/dump.tar.gz" && ask sysdump --out "$work/dump.tar.gz" && tar -C "$work" -xzf "$work/dump.tar.gz" || return 1
	cat "$work/pathwise-sysdump/not-read.txt"
	key=$(k -n pathwise get secret pathwise-key -o jsonpath='{.data.keys}')
	for file in objects/pathnodes.json agents/pwk-n1/{log.txt,health.json,paths.json,maps.json,metrics.txt,events.json}; do
		[ -s "$work/pathwise-sysdump/$file" ] || { echo "no $file"; return 1; }
	done
	! grep -rqF -e "$key" -e "$(base64 -d <<<"$key")" "$work/pathwise-sysdump"
}
verdict "sysdump has all and no key" dumped
fi

if part switches; then
switches() {
	local n
	for n in $(seq 200); do
		ask switch client server "$([ $((n % 2)) = 1 ] && echo fast || echo bulk)" || return 1
	done
	under_way
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
fi

if part holes; then
holes() {
	local n dev
	for n in $(seq "${PATHWISE_KUBE_HOLES:-20}"); do
		ask switch client server fast || return 1
		sleep 1.5
		dev=$([ "$(on)" = default/fast ] && echo eth1 || echo eth2)
		"$bed" node 1 nft "table netdev pw_hole { chain c { type filter hook ingress device $dev priority 0; policy drop; }; }" &&
			sleep 3 && "$bed" node 1 nft delete table netdev pw_hole || return 1
		sleep 4
	done
	under_way
}
traffic rr $((20 + 10 * ${PATHWISE_KUBE_HOLES:-20})) --target @:7002 --think 1ms --gap 15ms
generators=$!
eventually 20 three
verdict "${PATHWISE_KUBE_HOLES:-20} black holes" holes
wait "$generators"
verdict "each black hole was left" left 1000
# A figure of this bed, on a machine that does nothing else: no test of "make test" asserts a time.
verdict "the p95 of the longest gaps is under 100 ms" p95_under 100 "${PATHWISE_KUBE_HOLES:-20}"
say "      longest gaps, in ms: $(gaps "${PATHWISE_KUBE_HOLES:-20}")"
fi

inside() { # COMMAND: in the server's network namespace
	local inode
	inode=$(k get pathnode pwk-n2 -o json | jq -r '.spec.pods[] | select(.name == "default/server") | .sandbox')
	"$bed" node 2 sh -c 'for ns in /run/netns/*; do [ "$(stat -Lc %i "$ns")" != "$0" ] || nsenter --net="$ns" nft "$1"; done' \
		"$inode" "$1"
}
if part rules; then
# A rule in the receiving pod, as of policies on further networks: only that network's addresses
# are taken, which steered packets do not have. Probes and echoes go on passing.
rules() {
	local n dev
	for n in $(seq "${PATHWISE_KUBE_RULES:-20}"); do
		# A network that fails again and again is tried at ever longer intervals, unless somebody insists.
		ask switch --force client server fast || return 1
		sleep 1.5
		case $(on) in
		default/fast) dev=1 ;;
		default/bulk) dev=2 ;;
		*) echo "rule $n: the pair is on $(on), where there can be no such rule"; return 1 ;;
		esac
		inside "table inet pw_rule { chain c { type filter hook input priority 0; iifname net$dev ip saddr != 10.1$dev.0.0/16 drop; }; }" &&
			sleep 3 && inside 'delete table inet pw_rule' || return 1
		sleep 4
	done
	under_way
}
traffic rr $((20 + 10 * ${PATHWISE_KUBE_RULES:-20})) --target @:7002 --think 1ms --gap 15ms
generators=$!
eventually 20 three
verdict "${PATHWISE_KUBE_RULES:-20} rules in the receiving pod" rules
wait "$generators"
verdict "the network of each rule was left within a second" left 1000
say "      longest gaps, in ms: $(gaps "${PATHWISE_KUBE_RULES:-20}")"
fi

if part away; then
# The API server is away: it answers nobody. Traffic is begun on the node, as exec goes through it.
steers() { # COMMAND: in the client's network namespace, on its node
	local inode
	inode=$(k get pathnode pwk-n1 -o json | jq -r '.spec.pods[] | select(.name == "default/client") | .sandbox')
	"$bed" node 1 sh -c 'for ns in /run/netns/*; do [ "$(stat -Lc %i "$ns")" != "$0" ] || exec nsenter --net="$ns" "$@"; done' \
		"$inode" "$@"
}
restarts() { k -n pathwise get pods -l app.kubernetes.io/component=agent -o jsonpath='{.items[*].status.containerStatuses[*].restartCount}'; }
away() { # for so many seconds, with a black hole meanwhile
	local seconds=$1 before dev api
	api=$(cat "$cache/bed/apiserver.pid") before=$(restarts)
	ask pin client server fast || return 1
	dev=$([ "$(on)" = default/fast ] && echo eth1 || echo eth2)
	kill -STOP "$api"
	read -r gone _ </proc/uptime
	sleep $((seconds / 2))
	read -r hole _ </proc/uptime
	"$bed" node 1 nft "table netdev pw_hole { chain c { type filter hook ingress device $dev priority 0; policy drop; }; }"
	sleep 3
	"$bed" node 1 nft delete table netdev pw_hole
	sleep $((seconds / 2))
	returned=$(date +%s)
	kill -CONT "$api"
	eventually 30 k get --raw /readyz >/dev/null && ask status --wait --timeout 60s && [ "$(restarts)" = "$before" ]
}
requests() { # FILTER: how many of each agent the API server has served that the filter takes; $at is when
	jq -nc --argjson back "$returned" '[inputs | {id: .auditID, of: .user.extra["authentication.kubernetes.io/pod-name"][0],
		at: (.requestReceivedTimestamp[:19] + "Z" | fromdate)}] | unique_by(.id) | group_by(.of) | map((map(.at) | min) as $began |
		{key: .[0].of, value: map(.at as $at | select('"$1"')) | length}) | from_entries' "$cache/bed/audit.log"
}
burst() { # an agent may read all again, as when it began, and no more
	requests '$at >= $back and $at < $back + 30' >"$work/back" && requests '$at < $began + 30' >"$work/began" || return 1
	cat "$work/back" "$work/began"
	jq -se '.[0] as $back | .[1] as $began | ($back | add) > 0 and
		([$back | to_entries[] | select(.value > $began[.key])] == [])' "$work/back" "$work/began"
}
target=$(k get pod server -o jsonpath='{.status.podIP}'):7002
seconds=${PATHWISE_KUBE_AWAY:-120}
steers "$PWD/bin/pathwise" generate stream rr --target "$target" --think 1ms --gap 15ms --duration $((seconds + 30))s \
	>"$work/rr.json" 2>"$work/rr.err" </dev/null &
generators=$!
eventually 20 three
verdict "API server away for $seconds s, with a black hole: no agent restarts" away "$seconds"
wait "$generators"
verdict "the black hole was left meanwhile" left 1000
verdict "rr: nothing was lost while the API server was away" whole rr
sleep 20
verdict "no agent asks more in the 30 s after that than when it began" burst
say "      requests of each agent, at its return $(cat "$work/back"), when it began $(cat "$work/began")"
ask unpin client server >/dev/null
say "      black hole $(awk -v h="$hole" -v g="$gone" 'BEGIN {print int(h - g)}') s after it went; longest gaps, in ms, and when: $(jq -r --argjson gone "$gone" '[.gaps.list[]? | [(.to_ns - .from_ns) / 1e6,
	.from_ns / 1e9 - $gone | floor]] | sort | .[-5:] | map("\(.[0]) at \(.[1])") | join(", ")' "$work/rr.json")"
fi

if part killed; then
# Agents that are killed leave flows where they are; those that follow take them over.
traffic rr 25 --target @:7002 --think 1ms --connections 2
generators=$!
eventually 20 three
ask switch client server fast >/dev/null
verdict "agents are killed" k -n pathwise delete pod -l app.kubernetes.io/component=agent --grace-period=0 --force
verdict "others are at work" ask status --wait --timeout 60s
wait "$generators"
verdict "rr: nothing was lost as agents were killed" whole rr
fi

if part lease; then
# Agents end on both nodes, and none follow, while a stream of 400 Mbit/s is elsewhere: by SIGKILL,
# or as the DaemonSet wants none on a node. It goes home when the lease ends, and loses nothing. What
# tracks connections there drops what does not fit (kube-proxy in iptables mode).
agents() { # how many there are
	k -n pathwise get pods -l app.kubernetes.io/component=agent -o name | wc -l
}
gone() { [ "$(agents)" = 0 ]; }
back() { # the DaemonSet as it was, and agents at work
	k -n pathwise delete daemonset pathwise-agent --ignore-not-found --cascade=foreground >/dev/null &&
		eventually 15 gone && k create -f "$work/daemonset.json" >/dev/null && ask status --wait --timeout 60s >/dev/null
}
end_killed() {
	local n
	k -n pathwise delete daemonset pathwise-agent --cascade=orphan >/dev/null || return 1
	for n in 1 2; do "$bed" node "$n" pkill -9 -f '^/pathwise agent ' & done
	k -n pathwise delete pod -l app.kubernetes.io/component=agent --grace-period=0 --force >/dev/null 2>&1
	eventually 10 gone
}
end_drained() {
	k -n pathwise patch daemonset pathwise-agent -p \
		'{"spec": {"template": {"spec": {"nodeSelector": {"pathwise.test/none": "true"}}}}}' >/dev/null && eventually 10 gone
}
invalid() { # what the nodes have dropped as INVALID, where they do
	for n in 1 2; do "$bed" node "$n" iptables -nvxL KUBE-FORWARD 2>/dev/null; done | awk '/INVALID/ {n += $1} END {print n + 0}'
}
lease() { # killed|drained
	local n way generator dropped
	: >"$work/gaps"
	for n in $(seq "${PATHWISE_KUBE_LEASES:-20}"); do
		way=--reverse=$([ $((n % 2)) = 1 ] && echo true || echo false) # the receiver tells of gaps, and the sender
		dropped=$(invalid)
		traffic tcp 12 --target @:7004 --rate 400000000 --gap 15ms "$way"
		generator=$!
		eventually 12 three && eventually 5 ask pin client server fast >/dev/null && eventually 5 is_on default/fast || return 1
		sleep 1.5
		is_on default/fast || { echo "$n: the stream is on $(on)"; return 1; }
		k -n pathwise logs -f -l app.kubernetes.io/component=agent --prefix --since=15s >"$work/agents-$n.log" 2>/dev/null &
		"end_$1" || return 1
		wait "$generator"
		jq -r --arg n "$n" --arg way "$way" --arg dropped $(($(invalid) - dropped)) '"\($n) \([.gaps.list[]? |
			(.to_ns - .from_ns) / 1e6 | floor] | max // 0) \(.counts.connections.closed) \(.counts.connections.lost)
			\($dropped) \((.counts.bytes_sent // 0) + (.counts.bytes_received // 0)) \($way) \(.errors.reasons // "")" |
			gsub("[\n\t]+"; " ")' "$work/tcp.json" >>"$work/gaps"
		mv "$work/tcp.json" "$work/tcp-$n.json"
		back || return 1
	done
	awk '$2 >= 1000 || $3 != 1 || $4 != 0' "$work/gaps" >"$work/bad"
	while read -r n way; do
		echo "$n: $way"
		tail -12 "$work/agents-$n.log" | cut -c1-400
		[ -z "${PATHWISE_KUBE_LOGS-}" ] || cp "$work/agents-$n.log" "$work/tcp-$n.json" "$PATHWISE_KUBE_LOGS"
	done <"$work/bad"
	[ ! -s "$work/bad" ]
}
k -n pathwise get daemonset pathwise-agent -o json | jq 'del(.status, .metadata.uid, .metadata.resourceVersion,
	.metadata.generation, .metadata.creationTimestamp, .metadata.managedFields)' >"$work/daemonset.json"
for way in ${PATHWISE_KUBE_ENDS:-killed drained}; do
	verdict "agents $way ${PATHWISE_KUBE_LEASES:-20} times at 400 Mbit/s, kube-proxy in $PATHWISE_KUBE_PROXY mode" lease "$way"
	say "      longest gaps, in ms: $(awk '{print $2}' "$work/gaps" | sort -n | paste -sd' '), packets dropped as INVALID: $(
		awk '{n += $5} END {print n + 0}' "$work/gaps")"
done
fi

measure() { "$bed" outside bin/pathwise bench --kube --nodes pwk-n1,pwk-n2 "$@"; }
if part bench; then
# The cluster's networks, ranked; a bench that is killed leaves what the next one takes away.
ranked() { # an interval on each rank
	measure --networks default,default/fast,default/bulk,host --repetitions "${PATHWISE_KUBE_REPETITIONS:-5}" --out "$work/bench" \
		>"$work/ranking" 2>"$work/progress" || { tail -n 20 "$work/progress" "$work/ranking"; return 1; }
	bin/pathwise report "$work/bench" -o json >"$work/report.json" && bin/pathwise recommend "$work/bench" >/dev/null &&
		bin/pathwise compare "$work/bench" "$work/bench" >/dev/null
}
verdict "bench on default, two networks, host" ranked
sed 's/^/        /' "$work/ranking"
verdict "nothing of the bench is left" sh -c "! $bed kubectl get namespace pathwise-bench >/dev/null 2>&1"
second() { # while one runs another is refused, and removes nothing
	measure --networks default --repetitions 2 --out "$work/first" >"$work/slain" 2>&1 &
	local p=$! status said
	eventually 60 grep -q '^\[' "$work/slain" || return 1
	said=$(measure --networks default --repetitions 1 --out "$work/second" 2>&1) && { echo "taken: $said"; return 1; }
	echo "$said"
	wait "$p"
	status=$?
	[ "$status" = 0 ] && grep -q 'one runs at a time on a cluster' <<<"$said" && ! [ -e "$work/second" ] &&
		bin/pathwise report "$work/first" -o json | jq -e '.trials != [] and all(.trials[]; .status == "ok")'
}
verdict "a second bench is refused, and the first goes on" second
slain() { # KILL SIGNAL
	measure --networks default --repetitions 2 --out "$work/slain-$1" >"$work/slain" 2>&1 &
	local p
	eventually 60 grep -q '^\[' "$work/slain" || return 1
	p=$(pgrep -f "pathwise bench --kube .*--out $work/slain-$1" | tail -1)
	kill "-$1" "$p"
	wait $!
	return 0
}
verdict "a bench is killed" slain KILL
verdict "its namespace is left" k get namespace pathwise-bench
verdict "a bench is interrupted" slain INT
verdict "and takes both's away" sh -c "! $bed kubectl get namespace pathwise-bench >/dev/null 2>&1"
resumed() { # what was killed goes on from the last trial that is kept
	local was
	was=$(wc -l <"$work/slain-KILL/samples.jsonl")
	measure --resume --out "$work/slain-KILL" >"$work/slain" 2>&1 || { tail "$work/slain"; return 1; }
	[ "$(wc -l <"$work/slain-KILL/samples.jsonl")" -gt "$was" ] && bin/pathwise compare "$work/first" "$work/slain-KILL"
}
verdict "a bench that was killed goes on with --resume, and is compared" resumed
fi

# Policies: by "Derived", what selects a pod keeps it home, and what cannot be read does too.
eligible() { # NETWORK: what "why" says of it: true, or the rule that forbids it
	ask why client server -o json | jq -r --arg n "default/$1" '.networks[] | select(.network == $n) | if .eligible then true else .rule end'
}
home() { # a pair that has no other network is native, and no agent tells of it
	case $(on) in default | "") ;; *) return 1 ;; esac
}
says() { grep -q "$2" <<<"$(eligible "$1")"; }
steered() { # the pair is where only flows that are free may be
	eventually 10 says fast true && eventually 10 says bulk true && eventually 10 three && ask pin client server fast
}
comes() { # FILE: an object of a policy, until the pair is home
	k apply -f "$1" >/dev/null && eventually 10 home
}
put() { # RESOURCE: makes the policy by one request, as kubectl takes longer than agents
	local version
	version=$(awk '$1 == "apiVersion:" {print $2; exit}' "$work/policy.yaml")
	date +%s%N >"$work/since"
	"$bed" put "$work/policy.yaml" "/apis/$version/namespaces/default/$1" && eventually 10 home
}
took() { # how long it took, by the first event that took the pair to the default network, of whatever kind
	ask events client -o json >"$work/events"
	jq -rs --argjson t "$(cat "$work/since")" '[.[] | select(.to == "default" and .pair == "default/client>default/server") |
		(.at | (sub("\\..*Z"; "Z") | fromdateiso8601 * 1000) + (capture("\\.(?<f>[0-9]{3})").f | tonumber) -
		($t / 1000000 | floor)) as $ms | select($ms >= 0) | "\($ms) \(.kind)"][0]' "$work/events"
}
soon() { # KIND RESOURCE ...: ten policies of a kind, each of which takes the pair home within a second
	local n ms kind resource=$1
	shift
	policy "$@"
	for n in $(seq "${PATHWISE_KUBE_POLICIES:-10}"); do
		steered >/dev/null && sleep 0.5 && put "$resource" || return 1
		read -r ms kind <<<"$(took)"
		echo "$ms $kind" >>"$work/took"
		[ "$ms" -lt 1000 ] || echo "policy $n: home after $ms ms, by $kind" >>"$work/late"
		k delete -f "$work/policy.yaml" >/dev/null
	done
	[ ! -e "$work/late" ] || { cat "$work/late"; return 1; }
}
policy() { # KIND SPEC [ANNOTATIONS] as a file
	printf 'apiVersion: %s\nkind: %s\nmetadata: {name: deny, namespace: default, annotations: {%s}}\nspec: {%s}\n' \
		"$1" "$2" "${4-}" "$3" >"$work/policy.yaml"
}
pair() { # of the server alone
	k label pod server app=server --overwrite
}
if part policies; then
traffic rr 240 --target @:7002 --think 1ms --connections 2
generators=$!
eventually 20 three
verdict "networks are Derived" k patch pathnetwork fast bulk --type=merge -p '{"spec": {"policy": "Derived"}}'
verdict "no policy: the pair is steered" steered
pair >/dev/null
policy networking.k8s.io/v1 NetworkPolicy 'podSelector: {matchLabels: {app: other}}, policyTypes: [Ingress]'
k apply -f "$work/policy.yaml" >/dev/null
sleep 2
verdict "a NetworkPolicy of others changes nothing" says fast true
policy networking.k8s.io/v1 NetworkPolicy 'podSelector: {matchLabels: {app: server}}, policyTypes: [Ingress], ingress: [{}]'
verdict "a NetworkPolicy takes the pair home" comes "$work/policy.yaml"
verdict "why names it, for both networks" eval 'says fast "NetworkPolicy default/deny selects it" && says bulk "NetworkPolicy default/deny"'
k delete -f "$work/policy.yaml" >/dev/null
verdict "without it the pair is steered" steered
verdict "${PATHWISE_KUBE_POLICIES:-10} policies: each time home within a second" soon networkpolicies networking.k8s.io/v1 \
	NetworkPolicy 'podSelector: {matchLabels: {app: server}}, policyTypes: [Ingress], ingress: [{}]'
say "      home after, in ms, by: $(sort -n "$work/took" | paste -sd, -)"
verdict "without them the pair is steered" steered
k patch pathnetwork fast --type=merge -p '{"spec": {"policy": "SameEnforcer"}}' >/dev/null
k apply -f scripts/kube-policies.yaml >/dev/null
k wait --for=condition=Established crd/multi-networkpolicies.k8s.cni.cncf.io crd/ciliumnetworkpolicies.cilium.io --timeout=20s >/dev/null
verdict "kinds of policies that come, and have no object, bar nothing" steered
policy k8s.cni.cncf.io/v1beta2 MultiNetworkPolicy 'podSelector: {matchLabels: {app: server}}, policyTypes: [Ingress]' \
	'k8s.v1.cni.cncf.io/policy-for: fast'
verdict "a MultiNetworkPolicy takes the pair from its network" comes "$work/policy.yaml"
verdict "why names it, for that network alone" eval 'says fast "MultiNetworkPolicy default/deny selects it" && says bulk true'
k delete -f "$work/policy.yaml" >/dev/null
k patch pathnetwork fast --type=merge -p '{"spec": {"policy": "Derived"}}' >/dev/null
verdict "without it the pair is steered again" steered
# The agents may not read that kind any more, and it is defined again.
k delete crd ciliumnetworkpolicies.cilium.io >/dev/null
k get clusterrole pathwise-agent -o json | jq 'del(.rules[] | select(.apiGroups == ["cilium.io"]))' | k replace -f - >/dev/null
verdict "a kind that cannot be read takes the pair home" comes scripts/kube-policies.yaml
verdict "why names it, too" says bulk "kind CiliumNetworkPolicy cannot be read"
verdict "install gives the agents back what they may" ask install "${with[@]}"
verdict "and the pair is steered" eventually 40 steered
ask unpin client server >/dev/null
wait "$generators"
verdict "rr: nothing was lost as policies came and went" whole rr
fi

if part enforced && [ -n "${PATHWISE_KUBE_ENFORCER-}" ]; then
# MultiNetworkPolicies as they are enforced: in the pods, by the addresses of the network, which steered
# packets do not have.
program=$cache/bed/enforcer
enforce() { # on each node, which has the networks' configurations in files
	local n
	cp "$PATHWISE_KUBE_ENFORCER" "$program" || return 1
	for n in 1 2; do
		"$bed" node "$n" sh -c 'mkdir -p /etc/cni/multus && ln -sfn ../net.d /etc/cni/multus/net.d' || return 1
		"$bed" node "$n" "$program" --kubeconfig="$cache/bed/pki/admin.kubeconfig" --hostname-override="pwk-n$n" \
			--container-runtime-endpoint=unix:///run/containerd/containerd.sock >"$work/enforcer-$n" 2>&1 &
	done
}
enforce_no_more() {
	local n
	for n in 1 2; do "$bed" node "$n" pkill -TERM -f "^$program "; done
	eventually 10 sh -c "! $bed node 1 pgrep -f '^$program ' && ! $bed node 2 pgrep -f '^$program '" >/dev/null
}
rules_of() { # how many rules of the enforcer are in the server's namespace that drop
	inside 'list ruleset' 2>/dev/null | grep -A9 'chain MULTI-INGRESS ' | grep -c drop
}
enforced() { [ "$(rules_of)" -gt 0 ]; }
free() { [ "$(rules_of)" = 0 ]; }
passes() { # NETWORK: what is no steered packet passes there, to the address that the server has on it
	local ip
	ip=$(k get pathnode pwk-n2 -o json | jq -r --arg n "default/$1" '.spec.pods[] | select(.name == "default/server") |
		.attachments[] | select(.network == $n) | .addresses[0]')
	k exec client -c main -- /pathwise generate stream rr --target "$ip:7002" --think 1ms --duration 2s 2>"$work/passes.err" |
		jq -e '(.counts.operations // 0) > 20' >/dev/null
}
never() { # NETWORK: the pair has not been moved there since the policy was made
	ask events client -o json | jq -rs --arg n "default/$1" --argjson t "$(cat "$work/since")" '[.[] | select(.to == $n and
		.pair == "default/client>default/server" and (.at | sub("\\..*Z"; "Z") | fromdateiso8601) > ($t / 1e9) + 1)]' |
		tee /dev/stderr | jq -e '. == []'
}
refused_there() { ! ask switch client server "$1" && ! is_on "default/$1"; }
bars() { # WHAT SPEC: a policy of the network fast
	policy k8s.cni.cncf.io/v1beta2 MultiNetworkPolicy "$2" 'k8s.v1.cni.cncf.io/policy-for: fast'
	verdict "$1 takes the pair home" eval 'steered >/dev/null && put multi-networkpolicies'
	verdict "it is enforced" eventually 20 enforced
}
k label pod client app=client --overwrite >/dev/null
pair >/dev/null
k apply -f scripts/kube-policies.yaml >/dev/null
k wait --for=condition=Established crd/multi-networkpolicies.k8s.cni.cncf.io --timeout=20s >/dev/null
verdict "the enforcer of MultiNetworkPolicies begins" enforce
traffic rr $((60 + 12 * ${PATHWISE_KUBE_POLICIES:-10})) --target @:7002 --think 1ms --connections 2
generators=$!
verdict "without a policy the pair is steered" steered
verdict "and packets pass on fast" passes fast
rm -f "$work/took" "$work/late"
verdict "${PATHWISE_KUBE_POLICIES:-10} policies: each time home within a second" soon multi-networkpolicies \
	k8s.cni.cncf.io/v1beta2 MultiNetworkPolicy 'podSelector: {matchLabels: {app: server}}, policyTypes: [Ingress]' \
	'k8s.v1.cni.cncf.io/policy-for: fast'
say "      home after, in ms, by: $(sort -n "$work/took" | paste -sd, -)"
verdict "the last one is enforced no more" eventually 20 free
bars "a policy that permits nothing" 'podSelector: {matchLabels: {app: server}}, policyTypes: [Ingress]'
verdict "why names it, for that network alone" eval 'says fast "MultiNetworkPolicy default/deny selects it" && says bulk true'
verdict "no packet passes on fast" eval '! passes fast'
verdict "an order to fast is refused" refused_there fast
sleep 5
verdict "the pair has not been on fast" never fast
k delete -f "$work/policy.yaml" >/dev/null
verdict "without it packets pass again" eventually 20 passes fast
bars "one that permits the client" 'podSelector: {matchLabels: {app: server}}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: {app: client}}}]}]'
verdict "packets with addresses of fast pass there" passes fast
verdict "why names it" says fast "MultiNetworkPolicy default/deny selects it"
sleep 5
verdict "the pair has not been on fast" never fast
k delete -f "$work/policy.yaml" >/dev/null
verdict "without it the pair is steered again" eventually 20 steered
ask unpin client server >/dev/null
verdict "the enforcer ends, and takes its rules" eval 'enforce_no_more && eventually 10 free'
wait "$generators"
verdict "rr: nothing was lost as policies came and went" whole rr
fi

# PathPolicies: what they say is what agents do, and is told.
object() { # NAME SPEC: a PathPolicy
	printf 'apiVersion: pathwise.dev/v1alpha1\nkind: PathPolicy\nmetadata: {name: %s, namespace: default}\nspec: {%s}\n' "$1" "$2"
}
invalid() { # SPEC WHY: the API server refuses it, and says why
	local said
	said=$(object bad "$1" | k apply -f - 2>&1) && { echo "taken: $1"; return 1; }
	grep -q "$2" <<<"$said" || { echo "$said"; return 1; }
}
refusals() {
	invalid 'podSelector: {}' 'it says nothing' &&
		invalid 'pin: default/fast, networks: [default/bulk]' 'pin is none of networks' &&
		invalid 'pin: default/fast, dryRun: true' 'exclude each other' &&
		invalid 'need: speed' 'Unsupported value' &&
		invalid 'networks: []' 'should have at least 1 items' &&
		invalid 'networks: [Fast]' 'should match' &&
		invalid 'need: robust, podSelector: {matchExpressions: [{key: a, operator: In}]}' 'In and NotIn need values' &&
		invalid 'need: robust, podSelector: {matchExpressions: [{key: a, operator: Gt, values: ["1"]}]}' 'Unsupported value'
}
holds() { # NAME PODS OVERRIDDEN ACCEPTED, as kubectl shows it
	[ "$(k get pathpolicy "$1" -o jsonpath='{.status.pods} {.status.overridden} {.status.conditions[?(@.type=="Accepted")].status}')" = \
		"$2 $3 $4" ]
}
told_by() { ask paths -o json client | jq -r '.[] | select(.pair == "default/client>default/server" and .active) | .policy, .why'; }
explains() { grep -q "$1" <<<"$(ask why client server)"; }
if part asks; then
	verdict "what says nothing, or what nobody could do, is refused" refusals
	k label pod client app=client --overwrite >/dev/null
	traffic rr 120 --target @:7002 --think 1ms --connections 2
	generators=$!
	eventually 20 three
	object pinned 'podSelector: {matchLabels: {app: client}}, pin: default/bulk' | k apply -f - >/dev/null
	verdict "a pin moves the pair" eventually 10 is_on default/bulk
	verdict "paths says whose it is" eventually 5 sh -c "$bed pathwise paths -o json client | grep -q 'pinned by PathPolicy default/pinned'"
	verdict "why says so" explains 'PathPolicy default/pinned holds; of flows that it opens: pinned to default/bulk'
	object never 'networks: [default], need: robust' | k apply -f - >/dev/null
	verdict "a younger one holds for the other pod alone, and its status says so" eventually 45 holds never 1 1 True
	verdict "why names both" explains 'not the younger default/never'
	verdict "for that pod no other network is eligible" says fast 'PathPolicy default/never does not name it in networks'
	verdict "and the pair is home" eventually 10 home
	k delete pathpolicy never >/dev/null
	verdict "without it the pair is where it is pinned" eventually 15 is_on default/bulk
	k delete pathpolicy pinned >/dev/null
	object dry 'podSelector: {matchLabels: {app: client}}, dryRun: true' | k apply -f - >/dev/null
	verdict "a dry run takes the pair home" eventually 10 is_on default
	verdict "paths says that it is one" eventually 5 sh -c "$bed pathwise paths -o json client | grep -q 'a dry run by PathPolicy default/dry'"
	verdict "an order is refused by its name" sh -c "! $bed pathwise switch client server fast 2>$work/said; grep -q 'PathPolicy default/dry says dry run' $work/said"
	object odd 'pin: default/none' | k apply -f - >/dev/null
	verdict "a network that nobody allows is not accepted" eventually 45 holds odd 1 1 False
	k delete pathpolicy dry odd >/dev/null
	wait "$generators"
	verdict "rr: nothing was lost as PathPolicies came and went" whole rr
fi

if part forged; then
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
told() { [ "$(k get events --field-selector reason=SteeringRefused,involvedObject.name=client -o name | wc -l)" = "$1" ]; }
# A pod is told of once a minute at most, and a path of it may just have been told of.
verdict "an event of the pod says so, once" eventually 65 told 1
fi

sandbox() { # the inode of the client's namespace, as its node's agent has found it
	k get pathnode pwk-n1 -o json | jq -r '.spec.pods[] | select(.name == "default/client") | .sandbox'
}
killed() { # the sandbox is killed, and kubelet makes another for the same pod
	local was
	was=$(sandbox)
	[ -n "$was" ] && "$bed" node 1 sh -c "for p in /proc/[0-9]*; do
		if [ \"\$(readlink \$p/ns/net)\" = 'net:[$was]' ] && [ \"\$(cat \$p/comm)\" = pause ]; then kill -9 \${p#/proc/}; fi; done" &&
		eventually 40 sh -c "now=\$($bed kubectl get pathnode pwk-n1 -o json |
			jq -r '.spec.pods[] | select(.name == \"default/client\") | .sandbox'); [ -n \"\$now\" ] && [ \"\$now\" != $was ]"
}

again() { # a pod of the same name
	k delete pod client --wait && eventually 10 k apply -f scripts/kube-workload.yaml &&
		k wait --for=condition=Ready pod/client --timeout=60s
}
if part sandbox; then
verdict "the pod is made again" again
traffic rr 20 --target @:7002 --think 1ms
verdict "and is steered again" eventually 15 three
wait
uid=$(k get pod client -o jsonpath='{.metadata.uid}')
verdict "its sandbox is killed, and made again" killed
verdict "it is the same pod" [ "$(k get pod client -o jsonpath='{.metadata.uid}')" = "$uid" ]
eventually 20 k exec client -c main -- /pathwise version >/dev/null 2>&1
traffic rr 20 --target @:7002 --think 1ms
verdict "and it is steered again, too" eventually 15 three
wait
fi

if part restart; then
# A node is stopped at once and started again: its pods have other namespaces and addresses.
traffic rr 5 --target @:7002 --think 1ms
wait
sandboxes() { k get pathnode pwk-n2 -o jsonpath='{.spec.pods[?(@.name=="default/server")].sandbox}'; }
was=$(sandboxes)
another() { local now && now=$(sandboxes) && [ -n "$now" ] && [ "$now" != "$was" ]; }
verdict "node pwk-n2 is stopped, and started again" "$bed" restart 2
verdict "its pods run again" eventually 90 k exec server -c rr -- /pathwise version >/dev/null 2>&1
running=$SECONDS
verdict "its agent has found the pod's other namespace" eventually 40 another
traffic rr 40 --target @:7002 --think 1ms
generators=$!
verdict "and is steered again" eventually 20 three
say "      $((SECONDS - running)) s after its pods ran"
wait "$generators"
verdict "rr: nothing was lost" whole rr
fi

if part images && [ -n "${PATHWISE_KUBE_FORMER-}" ]; then
# Agents of a former version, given by its program, are replaced by those of this one, and back, as
# "kube install" of each does it.
as() { # PROGRAM TAG
	"$bed" outside "$1" kube install --image "pathwise.test/pathwise:$2" --network default/fast,default/bulk >/dev/null &&
		"$bed" outside "$1" kube status --wait --timeout 90s
}
verdict "the former version has an image" "$bed" former "$PATHWISE_KUBE_FORMER"
verdict "it is at work" as "$PATHWISE_KUBE_FORMER" former
traffic rr 90 --target @:7002 --think 1ms --connections 2
generators=$!
verdict "it steers" eventually 20 three
ask switch client server fast >/dev/null
verdict "this version takes over" as bin/pathwise test
verdict "it steers" eventually 20 three
verdict "the former one takes over" as "$PATHWISE_KUBE_FORMER" former
verdict "it steers" eventually 20 three
verdict "this version takes over" as bin/pathwise test
wait "$generators"
verdict "rr: nothing was lost, nor reset" whole rr
say "      longest gaps, in ms: $(gaps 5)"
fi

attached() { # how many programs are on the interfaces of the nodes' pods
	local n
	for n in 1 2; do
		"$bed" node "$n" sh -c "for ns in /run/netns/*; do nsenter --net=\$ns $cache/bed/attached; done"
	done | awk '{n += $1} END {print n + 0}'
}
pinned() { # the nodes' pins, and routes in their pods
	local n
	for n in 1 2; do
		"$bed" node "$n" sh -c 'ls -d /sys/fs/bpf/pathwise-* 2>/dev/null; for ns in /run/netns/*; do
			nsenter --net=$ns ip route show table all proto 0x50; done'
	done
}
clean() {
	local pins
	pins=$(pinned)
	echo "$pins"
	[ "$(attached)" = 0 ] && [ -z "$pins" ]
}
if part scale; then
# 1,000 nodes of 20 pods each, as their agents would have written them, of which ten change in a second: what
# an agent costs that begins there, whole, by the kernel's figures of its process and of its interface.
agent_of() { "$bed" node 1 pgrep -n -f '^/pathwise agent '; }
figure() { "$bed" node 1 awk -v k="$2:" '$1 == k {print int($2 / 1024)}' "/proc/$1/status"; }
ticks() { "$bed" node 1 awk '{print $14 + $15}' "/proc/$1/stat"; }
received() { "$bed" node 1 awk -F'[ :]+' '$2 == "eth0" {print $3}' "/proc/$1/net/dev"; }
many() { # an admission policy lets agents alone write of nodes; "install" makes it again
	k delete validatingadmissionpolicybinding pathwise-pathnode >/dev/null
	jq -nc '[range(1000) as $n | {apiVersion: "pathwise.dev/v1alpha1", kind: "PathNode", metadata: {name: "made-\($n)",
		labels: {"pathwise.test/made": "true"}}, spec: {version: "test", pods: [range(20) as $p | {uid: "made-\($n)-\($p)",
		name: "made-\($p % 7)/application-\($p)-7d9c5b6f4d-x\($n)", sandbox: (4026532000 + $p), agent: ($p == 0),
		attachments: [["default", "eth0", 100], ["default/fast", "net1", 110], ["default/bulk", "net2", 120] | {network: .[0],
		device: .[1], mtu: 1500, mac: "0a:58:00:00:00:01", addresses: ["10.\(.[2] + ($n / 250 | floor)).\($n % 250).\($p + 1)"]}]}]}}] |
		{apiVersion: "v1", kind: "List", items: .}' >"$work/many.json" || return 1
	k create -f "$work/many.json" >/dev/null || return 1
	[ "$(k get pathnodes -l pathwise.test/made -o name | wc -l)" = 1000 ]
}
changes() { # SECONDS: ten a second, each gives one node another pod in place of one
	local n
	for n in $(seq 0 $((10 * $1 - 1))); do
		[ "$n" = 0 ] || echo next
		printf '%s\n' 'request = PATCH' 'silent' 'fail' 'output = /dev/null' "cacert = $cache/bed/pki/ca.crt" \
			'header = "Content-Type: application/json-patch+json"' \
			"header = \"Authorization: Bearer $(awk -F, '$3 == "admin" {print $1}' "$cache/bed/pki/tokens.csv")\"" \
			"url = https://10.88.0.1:6443/apis/pathwise.dev/v1alpha1/pathnodes/made-$((n * 7919 % 1000))" \
			"data = \"[{\\\"op\\\": \\\"replace\\\", \\\"path\\\": \\\"/spec/pods/$((n % 19 + 1))/uid\\\", \\\"value\\\": \\\"new-$n\\\"}]\""
	done >"$work/changes"
	"$bed" outside curl --rate 10/s -K "$work/changes"
}
costs() { # within the bars: 80 MiB, 112 at the peak, 10 MB read at start, 3 % of a core
	local p read idle before from
	k -n pathwise delete pod -l app.kubernetes.io/component=agent >/dev/null && ask status --wait --timeout 60s >/dev/null &&
		sleep 5 && p=$(agent_of) && read=$(received "$p") || return 1
	before=$(ticks "$p") && sleep 20 && idle=$(($(ticks "$p") - before))
	before=$(ticks "$p") from=$(date +%s%N)
	changes 30 || return 1
	echo "$(figure "$p" VmRSS) MiB, $(figure "$p" VmHWM) at the peak; $((read / 1000)) kB read at start; CPU of a core: $(
		awk -v t=$(($(ticks "$p") - before)) -v ns=$(($(date +%s%N) - from)) -v i="$idle" \
			'BEGIN {printf "%.1f %% with 10 changes a second, %.1f %% without", t / (ns / 1e9), i / 20}')" >"$work/costs"
	awk '{exit !($1 + 0 && $1 <= 80 && $3 <= 112 && $7 < 10000 && $16 < 3)}' "$work/costs" || { cat "$work/costs"; return 1; }
}
verdict "1,000 PathNodes of 20 pods are made" many
verdict "an agent among them is within its bounds" costs
say "      $(cat "$work/costs")"
k delete --raw '/apis/pathwise.dev/v1alpha1/pathnodes?labelSelector=pathwise.test%2Fmade' >/dev/null
verdict "install makes again what was taken away for that" ask install "${with[@]}"
fi

if part caps; then
# Each capability and each mount is taken from the agents in turn. They begin with less, and say what; or end, and
# name it.
end_of() { # what the agents have said, those that have ended too
	k -n pathwise logs -l app.kubernetes.io/component=agent --tail=30 --prefix 2>/dev/null
	k -n pathwise logs -l app.kubernetes.io/component=agent --tail=30 --prefix --previous 2>/dev/null
}
told_of() { end_of >"$work/end"; grep -qE "$1" "$work/end"; }
ended() { [ "$(k -n pathwise get pods -l app.kubernetes.io/component=agent -o json |
	jq '[.items[].status.containerStatuses[]? | select(.restartCount > 0 or .state.terminated)] | length')" = 2 ]; }
lacks() { # begins|ends WORDS FILTER
	k -n pathwise delete daemonset pathwise-agent --cascade=foreground >/dev/null &&
		eventually 20 sh -c "! $bed kubectl -n pathwise get pods -o name | grep -q ." &&
		jq "$3" "$work/whole.json" | k create -f - >/dev/null || return 1
	if [ "$1" = ends ]; then eventually 30 ended; else ask status --wait --timeout 30s >/dev/null && ! ended; fi || {
		end_of
		k -n pathwise get pods
		return 1
	}
	[ -z "$2" ] || eventually 10 told_of "$2" || { cat "$work/end"; return 1; }
}
k -n pathwise get daemonset pathwise-agent -o json | jq 'del(.status, .metadata.uid, .metadata.resourceVersion,
	.metadata.generation, .metadata.creationTimestamp, .metadata.managedFields)' >"$work/whole.json"
while read -r how capability; do
	verdict "without CAP_$capability an agent $how, and says so" lacks "$how" "CAP_$capability" \
		".spec.template.spec.containers[0].securityContext.capabilities.add -= [\"$capability\"]"
done <<-'LIST'
	ends SYS_ADMIN
	ends NET_ADMIN
	begins NET_RAW
	ends NET_BIND_SERVICE
	begins SYS_NICE
	ends SYS_PTRACE
LIST
while read -r how name words; do
	verdict "without the mount $name an agent $how${words:+, and names it}" lacks "$how" "$words" \
		"del(.spec.template.spec.containers[0].volumeMounts[] | select(.name == \"$name\"))"
done <<-'LIST'
	ends netns /run/netns
	ends bpf /sys/fs/bpf
	begins cgroup /host/cgroup
	ends proc /host/proc
	ends run /run/pathwise
	ends key /etc/pathwise
	begins prior
LIST
k -n pathwise delete daemonset pathwise-agent --cascade=foreground >/dev/null
verdict "with all of them the agents are at work" sh -c "$bed kubectl create -f $work/whole.json && $bed pathwise status --wait --timeout 60s"
fi

if part helm; then
# The chart gives a cluster what "install" does, which then changes nothing: by Helm's own library.
helm() { # install|uninstall
	local root=$PWD status
	cd tools/helm && "$root/$bed" outside env PATHWISE_KUBE_HELM="$1" \
		PATHWISE_KUBE_VALUES="image=pathwise.test/pathwise:test,networks={default/fast,default/bulk}" \
		"$work/helm.test" -test.run '^TestOnCluster$' -test.v
	status=$?
	cd "$root" && return "$status"
}
generation() { k -n pathwise get daemonset pathwise-agent -o jsonpath='{.metadata.generation}'; }
the_same() {
	local was
	was=$(generation)
	ask install "${with[@]}" >/dev/null && [ -n "$was" ] && [ "$(generation)" = "$was" ]
}
key() { openssl rand -hex 32 >"$work/keys" && k -n pathwise create secret generic pathwise-key --from-file=keys="$work/keys"; }
verdict "uninstall" ask uninstall
verdict "Helm is built" go -C tools/helm test -c -o "$work/helm.test" .
verdict "helm install" helm install
verdict "the key is made" key
verdict "agents are at work" ask status --wait --timeout 60s
verdict "install changes nothing of the agents" the_same
k apply -f scripts/kube-workload.yaml >/dev/null
traffic rr 20 --target @:7002 --think 1ms
generators=$!
verdict "and the pair is steered" eventually 15 three
wait "$generators"
verdict "uninstall takes out of the pods what agents have put there" ask uninstall
verdict "helm uninstall" helm uninstall
verdict "install" ask install "${with[@]}"
k wait --for=condition=Established crd/pathnetworks.pathwise.dev --timeout=20s >/dev/null
verdict "workload is applied" eventually 10 k apply -f scripts/kube-workload.yaml
verdict "agents are at work" ask status --wait --timeout 60s
fi

if part uninstall; then
there=$(attached)
say "      $there programs are attached in pods"
verdict "there is something to take out" [ "$there" -gt 0 ]
traffic rr 60 --target @:7002 --think 1ms
generators=$!
eventually 20 three
measure --networks default --repetitions 20 --out "$work/left" >"$work/meanwhile" 2>&1 &
bench=$!
eventually 60 grep -q '^\[' "$work/meanwhile"
verdict "uninstall" ask uninstall
verdict "nothing is left in the pods of either node" clean
told_why() {
	local status
	wait "$bench"
	status=$?
	tail -5 "$work/meanwhile"
	[ "$status" = 1 ] && grep -q "namespace pathwise-bench is not this run's any more" "$work/meanwhile"
}
verdict "a bench that ran meanwhile ends, and says why" told_why
nothing() {
	! k get namespace,crd,clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding -o name |
		grep pathwise
}
verdict "no object is left" nothing
wait "$generators"
verdict "rr: nothing was lost as all was taken out" whole rr
fi

if part tutorial; then
# docs/tutorial/kubernetes.md as it is, on a cluster without agents; with PATHWISE_PASTE its outputs are
# written into the page.
k delete -f scripts/kube-workload.yaml --now --ignore-not-found >/dev/null 2>&1
ask uninstall >/dev/null 2>&1
tutorial() {
	local root=$PWD
	go test -c -o "$work/tutorial.test" ./cmd/pathwise && cd cmd/pathwise && "$root/$bed" outside env PATHWISE_KUBE_TUTORIAL=1 \
		"$work/tutorial.test" -test.run '^TestTutorials$/^kubernetes.md$' -test.v
	local status=$?
	cd "$root" && return "$status"
}
verdict "docs/tutorial/kubernetes.md, as written" tutorial
sed 's/^/        /' "$work/verdict" | tail -5
fi
exit $failed
