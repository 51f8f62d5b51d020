#!/bin/bash
# A Kubernetes cluster of two nodes on this machine, for tests: API server, etcd, controllers,
# and on each node kubelet, kube-proxy, containerd and Multus. Pods are on a default network and
# on two of macvlan, default/fast and default/bulk. Everything is in namespaces called pwk-*, and
# below BED (~/.cache/pathwise/kube/bed).
#
#   scripts/kube-bed.sh up         build it; scripts/kube-tools.sh has built the programs before
#   scripts/kube-bed.sh down       remove it
#   scripts/kube-bed.sh kubectl ...
#   scripts/kube-bed.sh pathwise ...               what "pathwise kube" has
#   scripts/kube-bed.sh outside COMMAND ...         run a command that finds the cluster by its kubeconfig
#   scripts/kube-bed.sh put FILE PATH              make an object by one request to the API server
#   scripts/kube-bed.sh load                       give the nodes the program as it is now
#   scripts/kube-bed.sh former PROGRAM              give the nodes another program, as the image pathwise:former
#   scripts/kube-bed.sh restart NUMBER              stop a node at once, and start it again
#   scripts/kube-bed.sh node NUMBER COMMAND ...     run a command on a node
set -euo pipefail
from=$PWD
cd "$(dirname "$0")/.."
cache=${PATHWISE_KUBE:-${HOME}/.cache/pathwise/kube}
export TOOLS=$cache/bin BED=$cache/bed PLUGINS=$PWD/bin/cni
pki=$BED/pki
server=https://10.88.0.1:6443

# hierarchies lists those of cgroups, below /sys/fs/cgroup: "." alone where there is only v2.
hierarchies() {
	local h found=
	for h in cpu cpuacct cpuset memory devices freezer blkio pids systemd unified; do
		[ ! -d /sys/fs/cgroup/$h ] || { echo $h && found=1; }
	done
	[ -n "$found" ] || echo .
}

cp_run() { nsenter --net=/run/netns/pwk-cp "$@"; }

kubectl() { cp_run kubectl --kubeconfig "$pki/admin.kubeconfig" "$@"; }

# begin NAME COMMAND ...: starts a program of the control plane.
begin() {
	local name=$1
	shift
	setsid nsenter --net=/run/netns/pwk-cp "$@" >"$BED/$name.log" 2>&1 &
	echo $! >"$BED/$name.pid"
}

# until_true SECONDS COMMAND ...: waits for the command to succeed.
until_true() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || {
			echo "kube-bed: still not so: $*" >&2
			return 1
		}
		sleep 0.2
	done
}

certificate() { # NAME SUBJECT ALTERNATIVES
	openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.csr" -subj "$2" 2>/dev/null
	openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out "$1.crt" 2>/dev/null \
		-extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$3")
}

keys() (
	mkdir -p "$pki"
	cd "$pki"
	openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -subj /CN=pwk -days 30 2>/dev/null
	certificate apiserver /CN=kube-apiserver IP:10.88.0.1,IP:10.96.0.1,DNS:kubernetes.default.svc
	certificate kubelet /O=system:masters/CN=apiserver DNS:x
	openssl genrsa -out sa.key 2048 2>/dev/null
	openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
	while IFS='|' read -r who user groups; do
		token=$(openssl rand -hex 16)
		echo "$token,$user,$who,\"$groups\"" >>tokens.csv
		cat >"$who.kubeconfig" <<-FILE
			apiVersion: v1
			kind: Config
			clusters: [{name: c, cluster: {server: "$server", certificate-authority: $pki/ca.crt}}]
			users: [{name: u, user: {token: "$token"}}]
			contexts: [{name: x, context: {cluster: c, user: u}}]
			current-context: x
		FILE
	done <<-'LIST'
		admin|admin|system:masters
		manager|system:kube-controller-manager|
		scheduler|system:kube-scheduler|
		proxy|system:kube-proxy|system:node-proxier
		n1|system:node:pwk-n1|system:nodes
		n2|system:node:pwk-n2|system:nodes
	LIST
)

wires() {
	local n b
	for n in cp n1 n2; do
		ip netns add "pwk-$n"
		ip -n "pwk-$n" link set lo up
		ip netns exec "pwk-$n" sysctl -qw net.ipv4.ip_forward=1
	done
	for b in 0 1 2; do
		ip -n pwk-cp link add "br$b" type bridge
		ip -n pwk-cp link set "br$b" up
	done
	ip -n pwk-cp address add 10.88.0.1/24 dev br0
	for n in 1 2; do
		for b in 0 1 2; do
			ip -n "pwk-n$n" link add "eth$b" type veth peer name "n${n}e$b" netns pwk-cp
			ip -n pwk-cp link set "n${n}e$b" master "br$b" up
			ip -n "pwk-n$n" link set "eth$b" up
		done
		ip -n "pwk-n$n" address add "10.88.0.1$n/24" dev eth0
		ip -n "pwk-n$n" route add default via 10.88.0.1
		ip -n "pwk-n$n" route add "10.244.$((3 - n)).0/24" via "10.88.0.1$((3 - n))"
		ip -n pwk-cp route add "10.244.$n.0/24" via "10.88.0.1$n"
	done
}

control_plane() {
	begin etcd etcd --data-dir "$BED/etcd" --listen-client-urls http://10.88.0.1:2379 \
		--advertise-client-urls http://10.88.0.1:2379 --listen-peer-urls http://10.88.0.1:2380 \
		--initial-advertise-peer-urls http://10.88.0.1:2380 --initial-cluster default=http://10.88.0.1:2380
	until_true 30 cp_run curl -sf http://10.88.0.1:2379/health
	# What agents ask is written down, and nothing of others.
	cat >"$BED/audit.yaml" <<-FILE
		apiVersion: audit.k8s.io/v1
		kind: Policy
		omitStages: [RequestReceived]
		rules: [{level: Metadata, userGroups: ["system:serviceaccounts:pathwise"]}, {level: None}]
	FILE
	begin apiserver "$TOOLS/kube-apiserver" --etcd-servers=http://10.88.0.1:2379 --bind-address=10.88.0.1 \
		--advertise-address=10.88.0.1 --secure-port=6443 --service-cluster-ip-range=10.96.0.0/16 \
		--tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" --client-ca-file="$pki/ca.crt" \
		--service-account-key-file="$pki/sa.pub" --service-account-signing-key-file="$pki/sa.key" \
		--service-account-issuer=https://kubernetes.default.svc --token-auth-file="$pki/tokens.csv" \
		--authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true \
		--kubelet-client-certificate="$pki/kubelet.crt" --kubelet-client-key="$pki/kubelet.key" \
		--kubelet-preferred-address-types=InternalIP --audit-policy-file="$BED/audit.yaml" --audit-log-path="$BED/audit.log"
	until_true 90 kubectl get --raw /readyz
	begin manager "$TOOLS/kube-controller-manager" --kubeconfig="$pki/manager.kubeconfig" \
		--authentication-kubeconfig="$pki/manager.kubeconfig" --authorization-kubeconfig="$pki/manager.kubeconfig" \
		--use-service-account-credentials --service-account-private-key-file="$pki/sa.key" --root-ca-file="$pki/ca.crt" \
		--leader-elect=false --bind-address=127.0.0.1
	begin scheduler "$TOOLS/kube-scheduler" --kubeconfig="$pki/scheduler.kubeconfig" --leader-elect=false \
		--authentication-kubeconfig="$pki/scheduler.kubeconfig" --authorization-kubeconfig="$pki/scheduler.kubeconfig" \
		--bind-address=127.0.0.1
	kubectl apply -f scripts/kube-definitions.yaml >/dev/null
	until_true 20 kubectl apply -f scripts/kube-networks.yaml
}

# pathwise_image: the image of the program as it is now.
pathwise_image() {
	go version -m bin/pathwise | grep -q 'CGO_ENABLED=0' || {
		echo 'kube-bed: bin/pathwise needs libraries that an image has not: make build' >&2
		exit 1
	}
	mkdir -p "$BED/images"
	scripts/image.sh "$BED/images/pathwise.tar" pathwise.test/pathwise:test pathwise "$(go env GOARCH)=bin/pathwise"
}

# image REFERENCE PROGRAM [ARGUMENT ...]: an image that holds one static program.
image() (
	reference=$1 program=$2 name=$(basename "$2") t=$(mktemp -d)
	shift 2
	trap 'rm -r "$t"' EXIT
	mkdir "$t/root" "$BED/images" -p
	cp "$program" "$t/root/$name"
	tar -C "$t/root" --owner=0 --group=0 --mtime=@0 -cf "$t/layer.tar" "$name"
	layer=$(sha256sum "$t/layer.tar" | cut -d' ' -f1)
	cat >"$t/config.json" <<-FILE
		{"architecture": "$(go env GOARCH)", "os": "linux", "config": {"Entrypoint": ["/$name"$([ $# = 0 ] || printf ', "%s"' "$@")]},
		 "rootfs": {"type": "layers", "diff_ids": ["sha256:$layer"]}, "history": [{"created_by": "kube-bed"}]}
	FILE
	echo "[{\"Config\": \"config.json\", \"RepoTags\": [\"$reference\"], \"Layers\": [\"layer.tar\"]}]" >"$t/manifest.json"
	tar -C "$t" -cf "$BED/images/$name.tar" manifest.json config.json layer.tar
)

# files N: what node N's programs read.
files() {
	local n=$1 node=$BED/n$1 net master
	mkdir -p "$node"/{upper,work,root,cni}
	cat >"$node/containerd.toml" <<-FILE
		version = 2
		root = "/var/lib/containerd"
		state = "/run/containerd"
		[grpc]
		  address = "/run/containerd/containerd.sock"
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "pathwise.test/pause:1"
		  restrict_oom_score_adj = true # there may be no CAP_SYS_RESOURCE
		  [plugins."io.containerd.grpc.v1.cri".cni]
		    bin_dir = "/opt/cni/bin"
		    conf_dir = "/etc/cni/net.d"
		  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
		    runtime_type = "io.containerd.runc.v2"
	FILE
	cat >"$node/kubelet.yaml" <<-FILE
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		failCgroupV1: false
		cgroupDriver: cgroupfs
		failSwapOn: false
		containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
		authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: $pki/ca.crt}}
		authorization: {mode: AlwaysAllow}
		resolvConf: ""
		podCIDR: 10.244.$n.0/24
		enforceNodeAllocatable: [pods]
		imageGCHighThresholdPercent: 100
		evictionHard: {memory.available: 100Mi}
	FILE
	cat >"$node/proxy.yaml" <<-FILE
		apiVersion: kubeproxy.config.k8s.io/v1alpha1
		kind: KubeProxyConfiguration
		mode: ${PATHWISE_KUBE_PROXY:-nftables}
		clientConnection: {kubeconfig: $pki/proxy.kubeconfig}
		clusterCIDR: 10.244.0.0/16
		conntrack: {maxPerCore: 0, min: 0}
	FILE
	cat >"$node/cni/00-multus.conf" <<-FILE
		{"cniVersion": "1.0.0", "name": "multus", "type": "multus", "kubeconfig": "$pki/admin.kubeconfig",
		 "confDir": "/etc/cni/net.d", "clusterNetwork": "/etc/cni/net.d/10-podnet.conf"}
	FILE
	cat >"$node/cni/10-podnet.conf" <<-FILE
		{"cniVersion": "1.0.0", "name": "podnet", "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
		 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.$n.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}
	FILE
	for net in fast bulk; do
		master=$([ $net = fast ] && echo 1 || echo 2)
		cat >"$node/cni/20-$net.conf" <<-FILE
			{"cniVersion": "1.0.0", "name": "$net", "type": "macvlan", "master": "eth$master",
			 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1$master.0.0/16", "rangeStart": "10.1$master.$n.10",
			 "rangeEnd": "10.1$master.$n.250"}]]}}
		FILE
	done
}

# restart N: as after a power cut. What is on disks stays, and nothing else.
restart() {
	local n=$1 p h
	p=$(pgrep -P "$(cat "$BED/n$n.pid")" | head -1)
	kill -9 "$p"
	until_true 20 sh -c "! kill -0 $p"
	for h in $(hierarchies); do
		until_true 20 sh -c "[ ! -d /sys/fs/cgroup/$h/pwk-n$n ] ||
			find /sys/fs/cgroup/$h/pwk-n$n -depth -type d -exec rmdir {} +"
	done
	ip -n "pwk-n$n" link delete cni0
	ip netns exec "pwk-n$n" nft flush ruleset
	node_up "$n"
}

node_up() {
	local n=$1 h dir
	files "$n"
	(
		for h in $(hierarchies); do
			dir=/sys/fs/cgroup/$h/pwk-n$n
			mkdir -p "$dir"
			if [ "$h" = cpuset ]; then
				cat /sys/fs/cgroup/cpuset/cpuset.cpus >"$dir/cpuset.cpus"
				cat /sys/fs/cgroup/cpuset/cpuset.mems >"$dir/cpuset.mems"
			fi
			echo $BASHPID >"$dir/cgroup.procs"
		done
		exec setsid nsenter --net="/run/netns/pwk-n$n" unshare --mount --pid --fork --kill-child --uts --ipc --cgroup \
			--propagation private scripts/kube-node.sh "$n"
	) >"$BED/n$n.log" 2>&1 &
	echo $! >"$BED/n$n.pid"
}

up() {
	local n missing
	missing=$(for p in etcd containerd ctr runc kubectl openssl nft curl jq; do
		command -v $p >/dev/null || printf ' %s' $p
	done)
	[ -z "$missing" ] || {
		echo "kube-bed: not installed:$missing" >&2
		exit 1
	}
	[ ! -e "$BED" ] || down
	mkdir -p "$BED"
	CGO_ENABLED=0 go build -o "$BED/pause" ./internal/lab/oci/testdata/pause
	CGO_ENABLED=0 go build -o "$BED/attached" ./internal/steer/kube/admin/testdata/attached
	image pathwise.test/pause:1 "$BED/pause" generate pause
	pathwise_image
	keys
	wires
	control_plane
	for n in 1 2; do node_up $n; done
	until_true 60 kubectl wait --for=condition=Ready node/pwk-n1 node/pwk-n2 --timeout=1s
}

down() {
	local f p n h
	for f in "$BED"/n*.pid "$BED"/*.pid; do
		[ -e "$f" ] || continue
		p=$(cat "$f")
		# It is ours if it is still in a namespace of ours.
		case $(ip netns identify "$p" 2>/dev/null) in pwk-*) kill -9 "$p" 2>/dev/null || true ;; esac
		rm "$f"
	done
	for n in cp n1 n2; do
		for p in $(ip netns pids "pwk-$n" 2>/dev/null); do kill -9 "$p" 2>/dev/null || true; done
	done
	sleep 1
	for n in 1 2; do
		for h in $(hierarchies); do
			[ ! -d "/sys/fs/cgroup/$h/pwk-n$n" ] || find "/sys/fs/cgroup/$h/pwk-n$n" -depth -type d -exec rmdir {} \; 2>/dev/null ||
				true
		done
	done
	for n in cp n1 n2; do ip netns delete "pwk-$n" 2>/dev/null || true; done
	rm -rf "$BED"
}

case ${1-} in
up) up ;;
down) down ;;
kubectl)
	shift
	kubectl "$@"
	;;
pathwise)
	shift
	cp_run env KUBECONFIG="$pki/admin.kubeconfig" bin/pathwise kube "$@"
	;;
outside)
	shift
	cd "$from"
	nsenter --net=/run/netns/pwk-cp env KUBECONFIG="$pki/admin.kubeconfig" "$@"
	;;
put)
	cp_run curl -sSf -o /dev/null --cacert "$pki/ca.crt" -H "Authorization: Bearer $(awk -F, '$3 == "admin" {print $1}' "$pki/tokens.csv")" \
		-H 'Content-Type: application/yaml' --data-binary "@$2" "$server$3"
	;;
load)
	pathwise_image
	for n in 1 2; do "$0" node $n ctr -n k8s.io images import "$BED/images/pathwise.tar" >/dev/null; done
	;;
former)
	cp "$2" "$BED/former"
	scripts/image.sh "$BED/images/former.tar" pathwise.test/pathwise:former pathwise "$(go env GOARCH)=$BED/former"
	for n in 1 2; do "$0" node $n ctr -n k8s.io images import "$BED/images/former.tar" >/dev/null; done
	;;
restart) restart "$2" ;;
node)
	p=$(pgrep -P "$(cat "$BED/n$2.pid")" | head -1)
	shift 2
	exec nsenter -t "$p" -m -p -n -u -i -C "$@"
	;;
*)
	sed -n '2,/^set/s/^# \?//p' "$0"
	exit 2
	;;
esac
