package telemetry

import (
	"testing"

	"pathwise.dev/pathwise/internal/lab/sockdiag"
)

// TestSnapshotIsWhatTheSocketSays compares with TCP_INFO of the same sockets.
func TestSnapshotIsWhatTheSocketSays(t *testing.T) {
	buildPair(t)
	conns := []connection{connect(t, server4), connect(t, server6), connectMapped(t)}
	for _, k := range conns {
		k.send(t, 5*megabyte)
		eventually(t, "all is acknowledged", func() bool { return tcpInfo(t, k.c).Unacked == 0 })
	}
	sockets, err := snapshot(client)
	must(t, err)
	if len(sockets) != len(conns) {
		t.Errorf("%d sockets, not %d: %+v", len(sockets), len(conns), sockets)
	}
	for i, k := range conns {
		local, port := ports(k)
		info := tcpInfo(t, k.c)
		n := 0
		for _, s := range sockets {
			if s.Local.Port() != local || s.Remote.Port() != port {
				continue
			}
			n++
			if s.Remote.Addr().Is4() != (i != 1) || s.State != info.State ||
				s.ID == 0 {
				t.Errorf("%+v", s)
			}
			if s.SRTT != us(uint64(info.Rtt)) || s.RTTVar != us(uint64(info.Rttvar)) || s.MinRTT != us(uint64(info.Min_rtt)) ||
				s.RTO != us(uint64(info.Rto)) ||
				s.Window != info.Snd_cwnd || s.SegmentSize != info.Snd_mss || s.Retransmits != info.Total_retrans ||
				s.BytesAcked != info.Bytes_acked ||
				s.SegmentsOut != info.Segs_out || s.DeliveryRate != info.Delivery_rate || s.Spurious != info.Dsack_dups ||
				s.Unacked != 0 {
				t.Errorf("%+v, not\n%+v", s, info)
			}
			if s.Busy != us(info.Busy_time) || s.ByWindow != us(info.Rwnd_limited) || s.ByBuffer != us(info.Sndbuf_limited) ||
				s.MaxPacing != info.Max_pacing_rate ||
				s.SendBuffer == 0 || s.ReceiveBuffer == 0 {
				t.Errorf("limited: %+v, not\n%+v", s, info)
			}
		}
		if n != 1 {
			t.Errorf("connection %d is listed %d times", i, n)
		}
	}
	theirs, err := snapshot(server)
	must(t, err)
	if len(theirs) != len(conns) || theirs[0].BytesReceived != 5*megabyte {
		t.Errorf("the server has %+v", theirs)
	}
	if _, err := snapshot("pw-t-nowhere"); err == nil {
		t.Error("a namespace that is not there has sockets")
	}
}

// TestAppLimited: a sender that pauses is limited by itself, one that fills
// the socket's buffer is not.
func TestAppLimited(t *testing.T) {
	buildPair(t)
	k := connect(t, server4)
	limited := func() bool {
		s, err := snapshot(client)
		must(t, err)
		return len(s) == 1 && s[0].AppLimited && s[0].DeliveryRate > 0
	}
	for range 50 {
		k.send(t, 100)
	}
	eventually(t, "the pausing sender is limited by itself", limited)
	go func() {
		for b := make([]byte, megabyte); ; {
			if _, err := k.c.Write(b); err != nil {
				return
			}
		}
	}()
	go func() {
		for b := make([]byte, megabyte); ; {
			if _, err := k.s.Read(b); err != nil {
				return
			}
		}
	}()
	eventually(t, "the busy sender is not", func() bool { return !limited() })
}

// snapshot lists what sockdiag.Each finds.
func snapshot(name string) (sockets []sockdiag.Socket, err error) {
	err = sockdiag.Each(name, func(s sockdiag.Socket) { sockets = append(sockets, s) })
	return sockets, err
}
