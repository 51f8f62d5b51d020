#!/bin/bash
# Measures what "pathwise compare" promises, on this machine: RUNS runs of the same experiment
# (A/A), and as many with a change planted in one network. Wants root, and an idle machine.
#
#   scripts/aa.sh [RUNS [REPETITIONS [DIR]]]      10 runs of 10 repetitions into results/aa-TIME
#
# Networks are host, bridge, and the user's list "planted": the bridge plugin, and behind it a
# plugin of this script's own (written into DIR) that puts RULES nftables rules into the pod's
# namespace, which each packet to the pod passes. The list has the same name and text in all
# runs; RULES differs, 0 and PLANT (120), which costs CPU time as a longer policy would.
# The size of the planted change is not assumed: it is that between the means of all runs.
#
# Runs of both kinds alternate, so that what the machine does in the meantime hits both. Printed are:
# the share of intervals of change, of each run against the next of its kind, that hold none,
# and in how many pairs of both kinds the change is found. The bars of the project are 93 % and
# nine of ten. Both ends of a pair are on one core, with a large receive buffer, as in the quick
# experiments. PATHWISE names another program; CONNECTIONS=1 halves the loads, and with them the time.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=${1:-10}
repetitions=${2:-10}
dir=${3:-results/aa-$(date +%Y%m%d-%H%M%S)}
pathwise=$(realpath "${PATHWISE:-bin/pathwise}")
plugins=$(realpath bin/cni)
mkdir -p "$dir/plugins"
dir=$(realpath "$dir")
command -v jq nft >/dev/null || { echo "aa: needs jq and nft" >&2; exit 1; }

cat >"$dir/plugins/pw-rules" <<'EOF'
#!/bin/bash
# A CNI plugin of scripts/aa.sh: RULES of the file alongside it become nftables rules in the pod.
set -euo pipefail
config=$(cat)
case $CNI_COMMAND in
VERSION) echo '{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}' ;;
ADD)
	rules=$(cat "$(dirname "$0")/rules")
	if [ "$rules" -gt 0 ]; then
		{
			echo 'add table inet pw-planted'
			echo 'add chain inet pw-planted in { type filter hook input priority 0; }'
			for ((i = 0; i < rules; i++)); do echo "add rule inet pw-planted in meta mark $((i + 1)) counter drop"; done
		} | nsenter --net="$CNI_NETNS" nft -f -
	fi
	jq .prevResult <<<"$config"
	;;
esac
EOF
chmod +x "$dir/plugins/pw-rules"
cat >"$dir/planted.conflist" <<'EOF'
{"cniVersion": "1.0.0", "name": "planted", "plugins": [
  {"type": "bridge", "bridge": "pw-planted0", "isGateway": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.213.7.0/24"}]]}},
  {"type": "pw-rules"}]}
EOF
cat >"$dir/aa.yaml" <<EOF
name: aa
networks: [host, bridge, {name: planted, cni: planted.conflist}]
cores: same
rmem: 4m
repetitions: $repetitions
workloads:
  - {name: tcp-stream, topologies: [one-host], load: {connections: [${CONNECTIONS:-1, 4}]}, duration: 800ms, warmup: 200ms}
  - {name: tcp-rr, topologies: [one-host], load: {connections: [${CONNECTIONS:-1, 4}]}, duration: 500ms, warmup: 200ms}
EOF

export CNI_PATH="$plugins:$dir/plugins"
for ((i = 1; i <= runs; i++)); do
	for kind in same planted; do
		[ $kind = same ] && echo 0 >"$dir/plugins/rules" || echo "${PLANT:-120}" >"$dir/plugins/rules"
		"$pathwise" bench -f "$dir/aa.yaml" --out "$dir/$kind-$i" >/dev/null
	done
done

# Each run against the next of its kind: nothing has changed.
for kind in same planted; do
	for ((i = 1; i <= runs; i++)); do
		"$pathwise" compare "$dir/$kind-$i" "$dir/$kind-$((i % runs + 1))" -o json
	done
done >"$dir/aa.json"
# Each pair of both kinds: one network has changed.
for ((i = 1; i <= runs; i++)); do
	"$pathwise" compare "$dir/same-$i" "$dir/planted-$i" -o json
done >"$dir/planted.json"

jq -rs '
	def share: "\(.[0]) of \(.[1]), \(if .[1] > 0 then .[0] * 1000 / .[1] | round / 10 else 0 end) %";
	def key: "\(.network) \(.workload) \(.load) \(.metric.name)";
	[.[].changes[] | select(.verdict != "reference" and .tested)] as $rows
	| ($rows | map(select(.relative != null and .relative.low != null))) as $ratios
	| ([range(0; length) as $i | .[$i] | (if $i < length / 2 then "same" else "planted" end) as $kind
		| .changes[] | select(.tested and .a.low != null) | {k: ($kind + " " + key), a: .a}] | group_by(.k)
		| map((map(.a.center) | add / length) as $mean | map(.a.low <= $mean and $mean <= .a.high)) | add) as $figures
	| "A/A, \(length) comparisons:",
	  "  intervals of change that hold none:          \([($ratios | map(select(.relative.low <= 1 and 1 <= .relative.high)) | length), ($ratios | length)] | share)",
	  "  intervals of figures that hold the mean:     \([($figures | map(select(.)) | length), ($figures | length)] | share)",
	  "  rows called changed:                         \([($rows | map(select(.significant)) | length), ($rows | length)] | share)"
' "$dir/aa.json"

jq -rs '
	length as $runs
	| [.[].changes[] | select(.network == "planted" and .relative != null)]
	| group_by([.workload, .load, .metric.name])[]
	| (map(.relative.center | log) | add / $runs | exp) as $true
	| "planted, \(.[0].workload) \(.[0].load | tojson) \(.[0].metric.name): changed by \(($true - 1) * 1000 | round / 10) % over all runs, "
	  + "found in \(map(select(.significant)) | length) of \($runs)"
' "$dir/planted.json"
jq -rs '[.[].changes[] | select(.network == "bridge")] | "planted, network bridge, which did not change: \(map(select(.significant)) | length) of \(length) rows called changed"' "$dir/planted.json"
