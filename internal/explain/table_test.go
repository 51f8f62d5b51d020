package explain

import (
	"slices"
	"strings"
	"testing"
)

func table(t *testing.T) *Table {
	t.Helper()
	out, err := DefaultTable()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestKernel(t *testing.T) {
	tab := table(t)
	const (
		write   = "entry_SYSCALL_64_after_hwframe do_syscall_64 ksys_write vfs_write sock_write_iter tcp_sendmsg tcp_sendmsg_locked "
		xmit    = write + "__tcp_push_pending_frames tcp_write_xmit __tcp_transmit_skb __ip_queue_xmit ip_output ip_finish_output2 __dev_queue_xmit "
		receive = xmit + "__local_bh_enable_ip do_softirq.part.0 handle_softirqs net_rx_action __napi_poll process_backlog __netif_receive_skb_one_core "
	)
	for name, tc := range map[string]struct {
		stack string
		want  Stage
	}{
		"a copy":                        {write + "_copy_from_iter", Copy},
		"the caller of a helper counts": {write + "_raw_spin_unlock_irqrestore", "transport"},
		"a compiler's suffix":           {receive + "ip_rcv ip_rcv_core.isra.0", "ip"},
		"the bridge":                    {receive + "br_handle_frame br_handle_frame_finish", Bridging},
		"netfilter in the bridge":       {receive + "br_handle_frame br_nf_pre_routing nf_hook_slow", "netfilter"},
		"encapsulation": {receive + "br_handle_frame br_dev_xmit vxlan_xmit vxlan_xmit_one memcpy",
			Encapsulation},
		"the tunnel's outer IP": {receive +
			"vxlan_xmit vxlan_xmit_one udp_tunnel_xmit_skb iptunnel_xmit ip_local_out", "ip"},
		"decapsulation":                  {receive + "ip_rcv udp_rcv vxlan_rcv", Decapsulation},
		"GRO of tunnels":                 {receive + "gro_cell_poll", "gso"},
		"segmentation of TCP is not TCP": {xmit + "validate_xmit_skb __skb_gso_segment inet_gso_segment tcp_gso_segment", "gso"},
		"conntrack": {receive + "ip_rcv nf_hook_slow nf_conntrack_in hash_conntrack_raw",
			"netfilter"},
		"Open vSwitch": {receive +
			"netdev_frame_hook ovs_vport_receive ovs_dp_process_packet ovs_flow_tbl_lookup_stats", "ovs"},
		"an upcall": {receive + "ovs_dp_upcall queue_userspace_packet", "ovs"},
		"tun":       {write + "tun_chr_write_iter tun_get_user", Datapath},
		"a queue":   {xmit + "__qdisc_run sch_direct_xmit", "qdisc"},
		"a wake-up": {receive +
			"tcp_v4_rcv sock_def_readable __wake_up_sync_key try_to_wake_up _raw_spin_unlock_irqrestore", "wakeup"},
		"entry is not what it calls": {"entry_SYSCALL_64_after_hwframe do_syscall_64 __x64_sys_frobnicate frobnicate", Unattributed},
		"entry itself":               {"entry_SYSCALL_64_after_hwframe do_syscall_64", "syscall"},
		"a softirq is not who runs it": {xmit + "__local_bh_enable_ip do_softirq handle_softirqs mystery",
			Unattributed},
		"the softirq's entry": {xmit + "__local_bh_enable_ip do_softirq handle_softirqs", "device"},
		"a lock of the softirq's own": {xmit +
			"__local_bh_enable_ip do_softirq handle_softirqs _raw_spin_unlock_irqrestore", "device"},
		"a lock of an unknown action": {xmit + "do_softirq handle_softirqs mystery _raw_spin_unlock_irqrestore",
			Unattributed},
		"nothing but helpers": {"__x86_indirect_thunk_rax", Unattributed},
		"a lock at the entry": {"entry_SYSCALL_64_after_hwframe do_syscall_64 __rcu_read_lock", "syscall"},
		"an interrupt is not whom it stops": {write +
			"asm_sysvec_apic_timer_interrupt sysvec_apic_timer_interrupt mystery", Unattributed},
		"packets in an interrupt": {"cpu_startup_entry do_idle asm_common_interrupt common_interrupt handle_softirqs net_rx_action veth_poll", "device"},
		"a program of the network": {receive + "sch_handle_ingress tcx_run bpf_prog_6deef7357e7b4530_pw_path_ingress",
			"ebpf"},
		"Pathwise's own look": {receive +
			"bpf_trace_run1 bpf_prog_955eba83c39e9cad_pw_recv bpf_probe_read_kernel", Sampling},
		"nothing to do":                        {"secondary_startup_64_no_verify cpu_startup_entry do_idle default_idle_call pv_native_safe_halt", Idle},
		"a page fault":                         {"asm_exc_page_fault exc_page_fault do_user_addr_fault handle_mm_fault clear_page_erms", "other"},
		"a function that nobody knows":         {"mystery", Unattributed},
		"no frames are a caller's mistake":     {"", Unattributed},
		"SRv6 wraps on the way out":            {xmit + "lwtunnel_output seg6_output seg6_do_srh_encap", Encapsulation},
		"and unwraps on the way in":            {receive + "ip6_input seg6_local_input_core", Decapsulation},
		"WireGuard in the kernel":              {"ret_from_fork kthread worker_thread process_one_work wg_packet_encrypt_worker chacha20poly1305_encrypt_sg_inplace", Crypto},
		"IP's look at IPsec's rules is no ESP": {receive + "tcp_v4_rcv __xfrm_policy_check2", "ip"},
	} {
		if got := tab.Kernel(strings.Fields(tc.stack)); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

func TestStageOfUserTime(t *testing.T) {
	tab := table(t)
	for _, tc := range []struct {
		s    Stack
		want Stage
	}{
		{Stack{Place: Client, Process: "iperf3"}, Generator},
		{Stack{Place: Shared, Process: "iperf3"}, Generator},
		{Stack{Place: ClientHost, Process: "some-daemon"}, Datapath},
		{Stack{Place: Client, Process: "ovs-vswitchd"}, Datapath},
		{Stack{Place: Outside, Process: "compile"}, Unattributed},
	} {
		if got := tab.StageOf(tc.s); got != tc.want {
			t.Errorf("%s in %s: got %s, want %s", tc.s.Process, tc.s.Place, got, tc.want)
		}
	}
}

func TestContextOf(t *testing.T) {
	tab := table(t)
	for want, stack := range map[Context]string{
		User: "", System: "do_syscall_64 tcp_sendmsg", SoftIRQ: "do_syscall_64 tcp_sendmsg __do_softirq net_rx_action",
		Free: "do_idle default_idle_call",
	} {
		if got := ContextOf(tab, strings.Fields(stack)); got != want {
			t.Errorf("%q: got %s, want %s", stack, got, want)
		}
	}
}

func TestParseTable(t *testing.T) {
	for text, want := range map[string]string{
		"tcp_x\n":                        "x:1: expected a [stage]",
		"[a] b\n\nx y\n":                 "x:3: expected the name",
		"[a]\n":                          "x:1: expected [stage] and what it is",
		"[a] b\nx*y*z\n":                 "x:2: expected the name",
		"[a] b\nx\n[c] d\nx\n":           "x:4: x is in line 2 already",
		"[a] b\n=\n":                     "x:2: expected the name",
		"~x\n[a] b\ny\n":                 "",
		"# nothing but a comment\n[a] b": "",
	} {
		_, err := ParseTable("x", text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// TestStagesAreDocumented: every stage that can come out has a word of explanation.
func TestStagesAreDocumented(t *testing.T) {
	tab := table(t)
	all := tab.Stages()
	for _, s := range all {
		if tab.Doc(s) == "" {
			t.Errorf("stage %s is not explained", s)
		}
	}
	for _, s := range []Stage{Generator, Datapath, Unattributed, Idle, Sampling, Copy, Bridging, Encapsulation,
		Decapsulation, Crypto} {
		if !slices.Contains(all, s) {
			t.Errorf("stage %s is not in the table", s)
		}
	}
}
