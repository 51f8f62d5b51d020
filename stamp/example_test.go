package stamp_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/netip"
	"time"

	"pathwise.dev/pathwise/stamp"
)

// listen opens a UDP socket on loopback: a reflector's is usually bound to port 862.
func listen() *net.UDPConn {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		log.Fatal(err)
	}
	return conn
}

// reflect runs a reflector until ctx ends, and says where.
func reflect(ctx context.Context, cfg stamp.ReflectorConfig) netip.AddrPort {
	conn := listen()
	r, err := stamp.NewReflector(conn, cfg)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		defer conn.Close()
		if err := r.Serve(ctx); err != nil {
			log.Print(err)
		}
	}()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// Five probes to a reflector.
func ExampleMeasure() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	to := reflect(ctx, stamp.ReflectorConfig{})

	conn := listen()
	defer conn.Close()
	m, err := stamp.Measure(ctx, conn, to, stamp.MeasureOptions{Count: 5, Interval: 10 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range m.Replies {
		fmt.Println("probe", r.Seq, "took time:", r.RTT > 0)
	}
	forward, backward, _ := m.Loss()
	fmt.Println("lost:", forward, "forward,", backward, "backward")
	// Output:
	// probe 0 took time: true
	// probe 1 took time: true
	// probe 2 took time: true
	// probe 3 took time: true
	// probe 4 took time: true
	// lost: 0 forward, 0 backward
}

// A reflector that answers only who has the key, and refuses to answer in a class that it
// does not sell.
func ExampleReflector() {
	key := stamp.Keys{Current: []byte("sixteen octets or more")}
	conn := listen()
	defer conn.Close()
	r, err := stamp.NewReflector(conn, stamp.ReflectorConfig{
		Keys:      key,
		AllowDSCP: func(_ netip.AddrPort, dscp uint8) bool { return dscp != 46 },
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- r.Serve(ctx) }()

	own := listen()
	defer own.Close()
	m, err := stamp.Measure(ctx, own, conn.LocalAddr().(*net.UDPAddr).AddrPort(), stamp.MeasureOptions{
		Count:  1,
		Sender: stamp.SenderConfig{Keys: key},
		Probe:  stamp.SendOptions{ClassOfService: true, ReplyDSCP: 46},
	})
	if err != nil {
		log.Fatal(err)
	}
	cancel()
	fmt.Println("served:", <-served)
	fmt.Println("refused the class:", m.Replies[0].DSCPRefused)
	fmt.Println("answered:", r.Counters().Reflected, "forged:", r.Counters().Forged)
	// Output:
	// served: <nil>
	// refused the class: true
	// answered: 1 forged: 0
}

// A sender at a pace of its caller's: an authenticated probe of 1400 octets that tells by
// which DSCP it arrived, and how many packets of the session the reflector has seen.
func ExampleSender() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	key := stamp.Keys{Current: []byte("sixteen octets or more")}
	to := reflect(ctx, stamp.ReflectorConfig{Keys: key})

	conn := listen()
	defer conn.Close()
	replies := make(chan stamp.Reply, 1)
	s, err := stamp.NewSender(conn, stamp.SenderConfig{
		Keys:    key,
		OnReply: func(r stamp.Reply) { replies <- r },
		OnLost:  func(l stamp.Lost) { log.Fatal("lost: ", l.Seq) },
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		if err := s.Run(ctx); err != nil {
			log.Print(err)
		}
	}()
	if _, err := s.Send(to, stamp.SendOptions{
		Size: 1400, DSCP: 46, ClassOfService: true, ReplyDSCP: 10, DirectMeasurement: true,
	}); err != nil {
		log.Fatal(err)
	}
	r := <-replies
	fmt.Println("octets:", r.Size, "DSCP there:", r.DSCPSeen, "here:", r.ReplyDSCP)
	fmt.Println("sent:", r.Direct.SenderSent, "received:", r.Direct.ReflectorReceived)
	// Output:
	// octets: 1400 DSCP there: 46 here: 10
	// sent: 1 received: 1
}

// A packet's bytes, read and written without a socket.
func ExampleParseTest() {
	b := make([]byte, stamp.Unauthenticated.Base())
	sent := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	stamp.TestPacket{
		Seq: 7, Time: stamp.PTP.Encode(sent), Error: stamp.EstimateError(true, stamp.PTP, time.Millisecond), SSID: 42,
	}.Put(stamp.Unauthenticated, b)

	p, err := stamp.ParseTest(stamp.Unauthenticated, b)
	if err != nil {
		log.Fatal(err)
	}
	at, err := p.Error.Format().Decode(p.Time, sent.Add(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Seq, p.SSID, at.UTC().Format(time.RFC3339), p.Error.Synchronized())
	// Output: 7 42 2026-11-24T12:00:00Z true
}
