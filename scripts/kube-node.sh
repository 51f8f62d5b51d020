#!/bin/bash
# The first process of a node of the test cluster, in namespaces of its own: builds the node's
# file system, on this machine's, and runs containerd, kubelet and kube-proxy in it. See
# scripts/kube-bed.sh, which starts it.
#
#   scripts/kube-node.sh NUMBER      with BED, TOOLS and PLUGINS in the environment
set -euo pipefail
n=$1 name=pwk-n$1 node=$BED/n$1
root=$node/root

hostname "$name"
mount -t overlay overlay -o "lowerdir=/,upperdir=$node/upper,workdir=$node/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t bpf bpf "$root/sys/fs/bpf"
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
	mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
	mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
	for c in cpu cpuacct cpuset memory devices freezer blkio pids; do
		mkdir "$root/sys/fs/cgroup/$c"
		mount -t cgroup -o "$c" cgroup "$root/sys/fs/cgroup/$c"
	done
	mkdir "$root/sys/fs/cgroup/"{systemd,unified}
	mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
	mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
fi
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mkdir -p "$root/run/"{netns,lock,own}
for dir in var/lib/containerd var/lib/kubelet var/log/pods; do
	mkdir -p "$root/$dir" "$node/$dir"
	mount --bind "$node/$dir" "$root/$dir"
done
mkdir -p "$root/etc/cni/net.d" "$root/opt/cni/bin" "$root/var/log/containers" "$root/var/lib/cni" "$root$BED"
mount --bind "$BED" "$root$BED"
cp "$PLUGINS"/* "$TOOLS/multus" "$root/opt/cni/bin/"
rm -f "$root/etc/cni/net.d/"*
cp "$node/cni/"* "$root/etc/cni/net.d/"
# kubelet sets these for the whole machine: here it sets a file of the node's.
while read -r sysctl value; do
	echo "$value" >"$root/run/own/${sysctl//\//_}"
	mount --bind "$root/run/own/${sysctl//\//_}" "$root/proc/sys/$sysctl"
done <<-'LIST'
	vm/overcommit_memory 1
	vm/panic_on_oom 0
	kernel/panic 10
	kernel/panic_on_oops 1
	kernel/keys/root_maxkeys 1000000
	kernel/keys/root_maxbytes 25000000
LIST
mkdir -p "$root/oldroot"
cd "$root"
pivot_root . oldroot
cd /
mount --make-rprivate /
umount -l /oldroot
mount --make-rshared /

containerd -c "$node/containerd.toml" >"$node/containerd.log" 2>&1 &
until ctr version >/dev/null 2>&1; do sleep 0.1; done
for image in "$BED"/images/*.tar; do
	ctr -n k8s.io images import "$image" >>"$node/containerd.log" 2>&1
done
"$TOOLS/kubelet" --config="$node/kubelet.yaml" --kubeconfig="$BED/pki/n$n.kubeconfig" --hostname-override="$name" \
	--node-ip="10.88.0.1$n" >"$node/kubelet.log" 2>&1 &
"$TOOLS/kube-proxy" --config="$node/proxy.yaml" --hostname-override="$name" >"$node/proxy.log" 2>&1 &
wait
