package drill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
)

// Inserter is a client that moves its own flow between its operations, as the
// manager of Atici and Boluk (2020, section 5) was a part of its client. Blocks
// of operations with switches among them, blocks on one path, without, and blocks
// on one path with switches that lead back to it before the next operation take
// turns, so that what else the machine does falls on all alike. The last are to
// tell what a switch costs from what another network costs whose code and data
// the processor has not touched for a while.
type Inserter struct {
	Local, Remote topo.Pod
	// Pins is the directory of the local pod's data plane, PeerPins that of the other's.
	Pins, PeerPins string
	Target         netip.AddrPort
	// Inserts with Switches among them; as many again are done without, and with
	// switches that lead back.
	Inserts, Switches int
	// Work is CPU time between operations.
	Work time.Duration
	Seed uint64
	// Workload is one of MongoDB's, in place of bare round trips; "" for those.
	Workload string
	// Capped: the server keeps no more than 16 MiB, as one of Pathwise's own must.
	Capped bool
}

// Inserted is what an Inserter measured, in seconds.
type Inserted struct {
	// Switching, Still[path] and Back[path] are the times of an operation, as a mean.
	Switching   float64
	Still, Back map[int]float64
	Switches    int
	// Write is the median time of a map write.
	Write  float64
	Stream stream.Report
}

const (
	// blockLength is how many operations of a block count.
	blockLength = 100
	// settling is how many do not, as a block begins: a move may lie before them.
	settling = 4
)

// course is what a block of operations has among them.
type course int

const (
	still  course = iota // nothing: all are on one path
	moving               // switches to other paths
	back                 // switches to other paths and back at once
)

// block is a run of operations; one that is not moving is on its path.
type block struct {
	course
	path  int
	spent time.Duration
}

// inserting is an Inserter at work.
type inserting struct {
	plane    *dataplane.Plane
	other    *dataplane.Plane // the peer's
	self     string
	uid      string
	paths    int
	at       int
	blocks   []block
	moves    []bool // of the block's operations, which one a switch follows
	rand     *rand.Rand
	op       int
	began    time.Time
	switches int
	writes   []float64
	err      error
}

// Run does the operations and writes what it measured.
func (i Inserter) Run(ctx context.Context, w io.Writer) error {
	rs := route.Between(i.Local, i.Remote)
	if len(rs) < 2 {
		return fmt.Errorf("%s to %s: %w", i.Local.Name, i.Remote.Name, errNoPaths)
	}
	plane, err := openPlane(i.Local, i.Remote, rs, i.Pins)
	if err != nil {
		return err
	}
	defer plane.Close()
	other, err := openPlane(i.Remote, i.Local, route.Between(i.Remote, i.Local), i.PeerPins)
	if err != nil {
		return err
	}
	defer other.Close()
	s := &inserting{plane: plane, other: other, self: i.Local.UID, uid: i.Remote.UID, paths: len(rs),
		rand: rand.New(rand.NewPCG(i.Seed, 7))}
	s.plan(i.Inserts/blockLength, i.Switches*blockLength/i.Inserts)
	got, err := i.operate(ctx, s)
	out := s.measured()
	out.Stream = got
	if err := errors.Join(err, s.err); err != nil {
		return err
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// operate does the operations of all blocks.
func (i Inserter) operate(ctx context.Context, s *inserting) (stream.Report, error) {
	count := int64(len(s.blocks)*(settling+blockLength) + 1)
	if i.Workload != "" {
		return i.documents(ctx, count, s.between)
	}
	var report bytes.Buffer
	c := stream.Client{Kind: stream.RR, Target: i.Target, Connections: 1, Requests: stream.Sizes{Min: 200, Max: 1000},
		Patience: 2 * time.Second, Count: count, Work: i.Work, Between: s.between}
	c.Record.Bin, c.Record.Gap = stream.DefaultBin, stream.DefaultGap
	if err := stream.Run(ctx, &report, c); err != nil {
		return stream.Report{}, err
	}
	return stream.Parse(report.Bytes())
}

var errNoPaths = errors.New("there is nothing to move between")

// plan lays out the blocks: rounds of one of each kind in random order, those on one
// path on one after the other.
func (s *inserting) plan(rounds, switches int) {
	for n := range rounds {
		round := []block{{course: still, path: n % s.paths}, {course: moving}, {course: back, path: n % s.paths}}
		s.rand.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		s.blocks = append(s.blocks, round...)
	}
	s.moves = make([]bool, blockLength)
	for n := range min(switches, blockLength) {
		s.moves[n] = true
	}
}

// between is called after each operation.
func (s *inserting) between() {
	n, k := s.op/(settling+blockLength), s.op%(settling+blockLength)
	s.op++
	now := time.Now()
	if k == 0 && n > 0 {
		s.blocks[n-1].spent = now.Sub(s.began)
	}
	if n >= len(s.blocks) {
		return
	}
	b := s.blocks[n]
	if k == 0 {
		s.rand.Shuffle(len(s.moves), func(i, j int) { s.moves[i], s.moves[j] = s.moves[j], s.moves[i] })
		if b.course != moving {
			s.move(b.path)
		}
	}
	if k == settling {
		s.began = now
	}
	if k >= settling && s.moves[k-settling] {
		s.follow(b)
	}
}

// follow does what follows an operation in a block.
func (s *inserting) follow(b block) {
	if b.course == still {
		return
	}
	took := s.move((s.at + 1 + s.rand.IntN(s.paths-1)) % s.paths)
	if b.course == back {
		s.move(b.path)
		return
	}
	s.writes = append(s.writes, took.Seconds())
	s.switches++
}

// move puts the flow on a path, and returns how long the map write took.
func (s *inserting) move(path int) time.Duration {
	begin := time.Now()
	_, err := s.plane.Switch(s.uid, dataplane.All, path)
	took := time.Since(begin)
	if err == nil {
		err = follows(s.plane, s.other, s.self, s.uid)
	}
	if err != nil {
		s.err = err
	}
	s.at = path
	return took
}

func (s *inserting) measured() Inserted {
	out := Inserted{Still: map[int]float64{}, Back: map[int]float64{}, Switches: s.switches}
	each := map[course]map[int][]float64{still: {}, moving: {}, back: {}}
	for _, b := range s.blocks {
		each[b.course][b.path] = append(each[b.course][b.path], b.spent.Seconds()/blockLength)
	}
	out.Switching = mean(each[moving][0])
	for path := range each[still] {
		out.Still[path], out.Back[path] = mean(each[still][path]), mean(each[back][path])
	}
	slices.Sort(s.writes)
	out.Write = median(s.writes)
	return out
}

func mean(values []float64) float64 { return sum(values) / float64(max(len(values), 1)) }
