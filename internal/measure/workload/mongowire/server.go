// Package mongowire is a server of MongoDB's wire protocol that keeps its
// documents in memory: the embedded server of the mongo workloads, so that the
// network bounds an operation and no storage does.
//
// It takes the commands, filters, projections and updates that mongo-perf's
// tests of Atici and Boluk (2020) need, answers them as FerretDB does (see
// tools/ferretdb), and says so where it is asked for more. It is no database:
// nothing is kept when it ends, there are no users, sessions or transactions,
// and indexes are taken note of but only that of _id is used.
package mongowire

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Server holds collections and answers commands.
type Server struct {
	now   func() time.Time
	usage func() (user, system time.Duration)
	began time.Time

	mu          sync.Mutex // of the maps
	collections map[string]*collection
	indexes     map[string]map[string]bool
	cursors     cursors

	// unique is this server's part of the ObjectIDs that it makes, made what
	// counts them.
	unique      [5]byte
	made        atomic.Uint32
	replies     atomic.Int32
	connections atomic.Int32
}

// New makes an empty server. usage tells the process's CPU time, which
// serverStatus answers with.
func New(now func() time.Time, usage func() (user, system time.Duration)) (*Server, error) {
	s := &Server{now: now, usage: usage, began: now(), collections: map[string]*collection{},
		indexes: map[string]map[string]bool{}, cursors: cursors{open: map[int64]*cursor{}, oldest: 1}}
	if _, err := rand.Read(s.unique[:]); err != nil {
		return nil, fmt.Errorf("make identity: %w", err)
	}
	return s, nil
}

// Serve answers on l until ctx ends, and closes it and its connections.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		running.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			s.connections.Add(1)
			defer s.connections.Add(-1)
			s.converse(conn)
		})
	}
}

// converse answers one connection until it ends. What goes wrong on it, the
// client sees: as MongoDB does, it hangs up on who sends no messages.
func (s *Server) converse(conn io.ReadWriter) {
	r := reader{Reader: bufio.NewReaderSize(conn, 64<<10)}
	var out []byte
	for {
		m, err := r.next()
		if err != nil {
			return
		}
		out = m.appendReply(out[:0], s.replies.Add(1), func(dst []byte) []byte { return s.answer(m, dst) })
		if m.flags&moreToCome != 0 {
			continue // the client waits for no answer
		}
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

// answer appends the answer's document.
func (s *Server) answer(m message, dst []byte) []byte {
	index, dst := bsoncore.AppendDocumentStart(dst)
	begin := len(dst)
	dst, bad := s.run(m, dst)
	if bad != nil {
		dst = bad.append(dst[:begin])
	} else {
		dst = bsoncore.AppendDoubleElement(dst, "ok", 1)
	}
	dst = append(dst, 0)
	return bsoncore.UpdateLength(dst, index, int32(len(dst))-index)
}

// appendObjectID makes a new ObjectID: seconds, this server, a count.
func (s *Server) appendObjectID(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.now().Unix()))
	dst = append(dst, s.unique[:]...)
	n := s.made.Add(1)
	return append(dst, byte(n>>16), byte(n>>8), byte(n))
}

// Listen serves at addr until ctx ends; control is that of net.ListenConfig.
func Listen(ctx context.Context, addr string, control func(network, address string, c syscall.RawConn) error) error {
	lc := net.ListenConfig{Control: control}
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s, err := New(time.Now, cpuTime)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return s.Serve(ctx, l)
}
