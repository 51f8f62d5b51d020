package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
)

// errNotRunning is returned where no agent serves.
var errNotRunning = errors.New("no agent is running there: start one with \"pathwise agent\"")

func newBody(b []byte) io.Reader {
	if b == nil {
		return nil
	}
	return bytes.NewReader(b)
}

// refusal is the agent's own words.
func refusal(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return fmt.Errorf("read agent's answer: %w", err)
	}
	return errors.New(strings.TrimSpace(string(raw)))
}

// mostAnswer bounds an agent's answer, in bytes: that about 20,000 pairs is a fifth.
const mostAnswer = 64 << 20

// Client talks to an agent's socket.
type Client struct {
	http http.Client
}

// Dial returns a client of the agent that serves on the Unix socket at path.
func Dial(path string) *Client {
	return Over(func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "unix", path) })
}

// Over returns a client of the agent at the other end of the connections that dial makes.
func Over(dial func(context.Context) (net.Conn, error)) *Client {
	return &Client{http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}}}
}

// Paths asks for the paths of all pairs with traffic.
func (c *Client) Paths(ctx context.Context) (out []PathStatus, err error) {
	return out, c.get(ctx, "/paths", &out)
}

// Health asks how the agent itself fares.
func (c *Client) Health(ctx context.Context) (out Health, err error) {
	return out, c.get(ctx, "/health", &out)
}

// Events asks for the events after number since; with wait it waits for some.
func (c *Client) Events(ctx context.Context, since int, wait bool) (out []Event, err error) {
	q := fmt.Sprintf("/events?since=%d", since)
	if wait {
		q += "&wait=1"
	}
	return out, c.get(ctx, q, &out)
}

// Order gives a manual order and returns the event that came of it.
func (c *Client) Order(ctx context.Context, o Order) (e Event, err error) {
	return e, c.call(ctx, http.MethodPost, "/order", o, &e)
}

func (c *Client) get(ctx context.Context, path string, out any) error {
	return c.call(ctx, http.MethodGet, path, nil, out)
}

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("encode order: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, newBody(body))
	if err != nil {
		return fmt.Errorf("ask agent: %w", err)
	}
	resp, err := c.http.Do(req)
	// A socket that nobody listens on is left of an agent that was killed.
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("ask agent: %w", errNotRunning)
	} else if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("ask agent: %w", errNotRoot)
	} else if err != nil {
		return fmt.Errorf("ask agent: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostAnswer)).Decode(out); err != nil {
		return fmt.Errorf("read agent's answer: %w", err)
	}
	return nil
}
