// Command quic carries data over a QUIC connection of quic-go, so that agents meet a real program of datagrams that
// acknowledges them, asks again, and bounds what is on its way (RFC 9000, RFC 9002). It is no load generator: it tells
// of each client how many bytes have come, and the longest time without any.
//
//	quic serve ADDR
//	quic download|upload|requests ADDR
package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	protocol = "pathwise-test"
	// every 5 ms a sender writes lump bytes: 500 kB/s, far below what networks give.
	every = 5 * time.Millisecond
	lump  = 2500
	// request and its answer are as long.
	request = 64
	// A client tells how it fares so often.
	tells = 50 * time.Millisecond
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves, or is a client, until ctx ends.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: quic serve|download|upload|requests ADDR")
	}
	if args[0] == "serve" {
		return serve(ctx, args[1])
	}
	begin, ok := kinds[args[0]]
	if !ok {
		return fmt.Errorf("%q is no kind of client: download, upload or requests", args[0])
	}
	return ask(ctx, args[1], begin, stdout)
}

// kind is what a client does, and what the server is told of it by the first byte.
type kind struct {
	letter byte
	// client sends; what comes back is read apart from it.
	client func(ctx context.Context, s io.Writer, answered <-chan struct{}) error
	server func(ctx context.Context, s io.ReadWriter) error
}

var kinds = map[string]kind{
	"download": {'d', func(context.Context, io.Writer, <-chan struct{}) error { return nil },
		func(ctx context.Context, s io.ReadWriter) error { return write(ctx, s) }},
	"upload": {'u', func(ctx context.Context, s io.Writer, _ <-chan struct{}) error { return write(ctx, s) }, acknowledge},
	"requests": {'r', requests, func(_ context.Context, s io.ReadWriter) error {
		_, err := io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{s}, make([]byte, request))
		return err
	}},
}

// write writes at a steady rate.
func write(ctx context.Context, s io.Writer) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for b := make([]byte, lump); ; {
		if _, err := s.Write(b); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// acknowledge answers whatever comes with a byte.
func acknowledge(_ context.Context, s io.ReadWriter) error {
	for b := make([]byte, 64<<10); ; {
		if _, err := s.Read(b); err != nil {
			return err
		}
		if _, err := s.Write(b[:1]); err != nil {
			return err
		}
	}
}

// requests sends one after the other, each a while after the answer to the one before.
func requests(ctx context.Context, s io.Writer, answered <-chan struct{}) error {
	for b := make([]byte, request); ; {
		if _, err := s.Write(b); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-answered:
		}
		time.Sleep(every)
	}
}

// ask is a client. It prints how many bytes have come, and how many milliseconds the longest time without any took.
func ask(ctx context.Context, addr string, k kind, stdout io.Writer) error {
	c, err := quic.DialAddr(ctx, addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}, patient())
	if err != nil {
		return fmt.Errorf("dial %s: %w", addr, err)
	}
	defer c.CloseWithError(0, "")
	s, err := c.OpenStreamSync(ctx)
	if err != nil {
		return fmt.Errorf("open a stream to %s: %w", addr, err)
	}
	if _, err := s.Write([]byte{k.letter}); err != nil {
		return fmt.Errorf("greet %s: %w", addr, err)
	}
	answered, failed, came := make(chan struct{}, 1), make(chan error, 2), make(chan int, 1)
	go func() {
		if err := k.client(ctx, s, answered); err != nil {
			failed <- fmt.Errorf("send to %s: %w", addr, err)
		}
	}()
	go func() {
		for b := make([]byte, 64<<10); ; {
			n, err := s.Read(b)
			if err != nil {
				failed <- fmt.Errorf("read from %s: %w", addr, err)
				return
			}
			select {
			case came <- n:
			case <-ctx.Done():
				return
			}
			select {
			case answered <- struct{}{}:
			default: // nobody waits for it
			}
		}
	}()
	return tell(ctx, came, failed, stdout)
}

// tell prints what has come until ctx ends or something fails.
func tell(ctx context.Context, came <-chan int, failed <-chan error, stdout io.Writer) error {
	tick := time.NewTicker(tells)
	defer tick.Stop()
	last, longest, total := time.Now(), time.Duration(0), 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			if ctx.Err() != nil {
				return nil
			}
			return err
		case n := <-came:
			total, last = total+n, time.Now()
		case <-tick.C:
			longest = max(longest, time.Since(last))
			if _, err := fmt.Fprintf(stdout, "%d %d\n", total, longest.Milliseconds()); err != nil {
				return err
			}
		}
	}
}

// serve serves each connection's one stream, until ctx ends.
func serve(ctx context.Context, addr string) error {
	cert, err := certificate()
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	how := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{protocol}}
	l, err := quic.ListenAddr(addr, how, patient())
	if err != nil {
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	defer l.Close()
	for {
		c, err := l.Accept(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept on %s: %w", addr, err)
		}
		go func() {
			err := answer(ctx, c)
			_ = c.CloseWithError(0, fmt.Sprint(err)) // the client knows why it ended
		}()
	}
}

func answer(ctx context.Context, c *quic.Conn) error {
	s, err := c.AcceptStream(ctx)
	if err != nil {
		return err
	}
	var letter [1]byte
	if _, err := io.ReadFull(s, letter[:]); err != nil {
		return err
	}
	for _, k := range kinds {
		if k.letter == letter[0] {
			return k.server(ctx, s)
		}
	}
	return fmt.Errorf("no kind %q", letter)
}

// patient is a connection that outlives an outage of some seconds.
func patient() *quic.Config { return &quic.Config{MaxIdleTimeout: 30 * time.Second} }

func certificate() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, t, t, public, private)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, err
}
