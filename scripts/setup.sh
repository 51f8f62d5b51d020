#!/bin/sh
# Installs what Pathwise needs on Debian 12 and 13 and on Ubuntu, and only what
# is missing: a machine that has everything is left alone, and nothing is said.
#
#   scripts/setup.sh run     what the lab's networks and workloads use
#   scripts/setup.sh test    that, a browser, shellcheck, what the eBPF programs are
#                            compiled with, MPTCP to compare with, and Rust to build
#                            another STAMP (see scripts/stamp-suite.sh)
#
# No service is started or enabled: Pathwise runs its own daemons, in its lab.
set -eu

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
	say "$*"
	exit 1
}

# wanted lists, for a profile, what must be there and the package that brings
# it. A word with a slash is a file, any other a program; "a|b" is either.
wanted() {
	cat <<-'LIST'
		ip                                  iproute2
		nft                                 nftables
		newuidmap                           uidmap
		iptables                            iptables
		ethtool                             ethtool
		ping                                iputils-ping
		iperf3                              iperf3
		sockperf                            sockperf
		nginx                               nginx-light
		bird                                bird2
		etcd                                etcd-server
		etcdctl                             etcd-client
		runc                                runc
		mpirun                              openmpi-bin
		mpicc                               libopenmpi-dev
		wg                                  wireguard-tools
		/usr/lib/frr/bgpd                   frr
		linux.uml                           user-mode-linux
		modprobe                            kmod
		qemu-system-x86_64                  qemu-system-x86
		/usr/lib/qemu/virtiofsd|/usr/libexec/virtiofsd  virtiofsd
		dockerd                             docker.io
		containerd                          containerd
		tincd                               tinc
		ovs-vswitchd                        openvswitch-switch
		ovn-northd                          ovn-central
		ovn-controller                      ovn-host
		make                                make
		gcc                                 gcc
		/usr/include/stdio.h                libc6-dev
		/etc/ssl/certs/ca-certificates.crt  ca-certificates
	LIST
	[ "$1" = run ] || cat <<-'LIST'
		shellcheck                          shellcheck
		jq                                  jq
		wrk                                 wrk
		wget                                wget
		/usr/sbin/sshd                      openssh-server
		rsync                               rsync
		clang                               clang
		llvm-strip                          llvm
		/usr/include/bpf/bpf_helpers.h      libbpf-dev
		/usr/include/linux/bpf.h            linux-libc-dev
		mptcpize                            mptcpize
		cargo                               cargo-web
		chromium|chromium-browser|google-chrome|google-chrome-stable|headless-shell  chromium
	LIST
}

# has reports whether one of the alternatives is there.
has() {
	for one in $(printf '%s' "$1" | tr '|' ' '); do
		case $one in
		/*) if [ -e "$one" ]; then return 0; fi ;;
		*) if command -v "$one" >/dev/null 2>&1; then return 0; fi ;;
		esac
	done
	return 1
}

# missing prints the packages that a profile lacks.
missing() {
	wanted "$1" | while read -r what package; do
		has "$what" || printf '%s ' "$package"
	done
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

policy=/usr/sbin/policy-rc.d
mark='# made by pathwise setup'

# hold_services keeps packages from starting their daemons, as Debian provides
# for. A policy of the machine's own is set aside until release_services.
hold_services() {
	release_services # after a run that was killed
	if [ -e "$policy" ]; then
		as_root mv "$policy" "$policy.pathwise-saved"
	fi
	printf '#!/bin/sh\n%s\nexit 101\n' "$mark" | as_root tee "$policy" >/dev/null
	as_root chmod 755 "$policy"
}

release_services() {
	if grep -qs "^$mark" "$policy"; then
		as_root rm -f "$policy"
	fi
	if [ -e "$policy.pathwise-saved" ]; then
		as_root mv "$policy.pathwise-saved" "$policy"
	fi
}

# disable_services keeps the daemons of packages just installed from starting
# at the next boot.
disable_services() {
	has systemctl || return 0
	for package in "$@"; do
		case $package in
		bird2) units=bird.service ;;
		etcd-server) units=etcd.service ;;
		docker.io) units='docker.socket docker.service' ;;
		containerd) units=containerd.service ;;
		tinc) units=tinc.service ;;
		nginx-light) units=nginx.service ;;
		openssh-server) units=ssh.service ;;
		frr) units=frr.service ;;
		openvswitch-switch) units=openvswitch-switch.service ;;
		ovn-central) units=ovn-central.service ;;
		ovn-host) units=ovn-host.service ;;
		*) continue ;;
		esac
		for unit in $units; do
			as_root systemctl disable "$unit" >>"$log" 2>&1 || say "could not disable $unit: see to it that it does not start by itself"
		done
	done
}

# apt_install installs the packages. Package lists are only fetched when they
# do not hold what is wanted, or are too old to.
apt_install() {
	set -- env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=120 install --no-install-recommends "$@"
	if as_root "$@" >"$log" 2>&1; then
		return 0
	fi
	as_root apt-get -q -o DPkg::Lock::Timeout=120 update >"$log" 2>&1 && as_root "$@" >>"$log" 2>&1
}

# install_packages installs the packages with their services held back.
install_packages() {
	command -v apt-get >/dev/null || die "this is neither Debian nor Ubuntu: install what these packages bring by other means: $*"
	say "installing $*"
	log=$(mktemp)
	trap 'release_services; rm -f "$log"' EXIT
	trap 'exit 130' INT TERM HUP
	hold_services
	if ! apt_install "$@"; then
		tail -n 15 "$log" >&2
		die "apt-get could not install $*: its last words are above"
	fi
	disable_services "$@"
	release_services
}

# installable leaves out what apt-get cannot bring: guest kernels are not for
# every system and processor; on Ubuntu, the package
# chromium only fetches a snap, which is for the user to choose; a Rust that is
# new enough is cargo-web where Debian has one for building browsers, elsewhere cargo.
installable() {
	for package in "$@"; do
		case $package in
		chromium) if is_ubuntu; then continue; fi ;;
		cargo-web) if ! known "$package"; then package=cargo; fi ;;
		user-mode-linux | qemu-system-x86 | virtiofsd) if ! known "$package"; then continue; fi ;;
		esac
		printf '%s ' "$package"
	done
}

# known reports whether the package lists have a package. They are fetched
# where there are none.
known() {
	if ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then
		as_root apt-get -q -o DPkg::Lock::Timeout=120 update >/dev/null 2>&1 || return 1
	fi
	apt-cache show "$1" >/dev/null 2>&1
}

is_ubuntu() { grep -qsE '^ID(_LIKE)?=.*ubuntu' /etc/os-release; }

# check_go wants a Go tool that builds this module, fetching a newer toolchain
# if it may and must.
check_go() {
	need=$(sed -n 's/^go //p' go.mod)
	how="install Go $need or newer from https://go.dev/dl/ and put its bin directory on PATH"
	has go || die "the go command is missing: $how"
	have=$(go env GOVERSION 2>/dev/null) || die "$(go env GOVERSION 2>&1 | tail -n 1): $how"
	# Go 1.20 and older do not look at the version that go.mod asks for.
	oldest=$(printf '%s\n' "${have#go}" "$need" | sort -V | head -n 1)
	if [ "$oldest" != "$need" ] && [ "${have#go}" != "$need" ]; then
		die "$have is too old: $how"
	fi
}

main() {
	profile=${1-}
	case $profile in
	run | test) ;;
	*) die "expected one argument, run or test" ;;
	esac
	cd "$(dirname "$0")/.."
	PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin:${HOME:-/root}/.cargo/bin
	# shellcheck disable=SC2046 # words on purpose
	set -- $(installable $(missing "$profile"))
	if [ $# -gt 0 ] && [ "$(id -u)" != 0 ] && ! has sudo; then
		say "there is neither root nor sudo, so these stay missing, and what needs them says so: $*"
		check_go
		return
	fi
	if [ $# -gt 0 ]; then
		install_packages "$@"
	fi
	left=$(missing "$profile")
	case $left in *'cargo-web '*)
		say 'there is no Rust: the test against another STAMP is skipped, which fails unless PATHWISE_ALLOW_SKIP=1 (see scripts/stamp-suite.sh)'
		left=${left%cargo-web *}${left#*cargo-web }
		;;
	esac
	for package in user-mode-linux qemu-system-x86 virtiofsd; do
		case $left in *"$package "*)
			say "there is no package $package here: networks that need it to boot a guest kernel say so (see \"pathwise guest\")"
			left=${left%"$package "*}${left#*"$package "}
			;;
		esac
	done
	case $left in
	'') ;;
	'chromium ') die 'the tests need a browser, which Ubuntu has as a snap only: install Google Chrome (https://www.google.com/chrome), or run "snap install chromium"' ;;
	*) die "still missing: what the packages $left should bring" ;;
	esac
	check_go
}

main "$@"
