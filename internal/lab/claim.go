package lab

import (
	"context"
	"os"
	"time"
)

// Claim is the record of something that is no lab and must go as one does, such
// as a guest kernel: a directory, the mark of its processes, and a lock that
// tells whether its owner lives.
type Claim struct {
	store Store
	name  string
	rec   *record
}

// Claim makes the record; guest says which kernel it is of.
func (s Store) Claim(name, guest string) (*Claim, error) {
	rec, err := s.create(name)
	if err != nil {
		return nil, err
	}
	c := &Claim{s, name, rec}
	st := State{Spec: Spec{Name: name}, Guest: guest, Created: time.Now(), Owner: os.Getpid(), Up: true}
	rec.change(func(s *State) { *s = st })
	if err := rec.save(); err != nil {
		rec.close()
		return nil, err
	}
	return c, nil
}

// Dir is the claim's directory.
func (c *Claim) Dir() string { return c.rec.dir }

// Mark is the variable, as NAME=VALUE, of the claim's processes.
func (c *Claim) Mark() string { return c.store.Mark(c.name) }

// Release ends the claim's processes and removes its directory.
func (c *Claim) Release(ctx context.Context) error {
	err := c.store.remove(ctx, c.name)
	c.rec.close()
	return err
}
