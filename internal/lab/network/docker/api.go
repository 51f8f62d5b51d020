package docker

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
)

// socket is the name of the engine's socket in its directory.
const socket = "docker.sock"

// dial connects to the engine, in any directory: the path of a socket has room
// for 107 bytes (unix(7)), of which that of a lab may want more.
func (e *engine) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	dir, err := os.Open(e.dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return new(net.Dialer).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socket))
}

// get asks for out, nil for nothing.
func (e *engine) get(ctx context.Context, path string, out any) error {
	raw, err := e.request(ctx, http.MethodGet, path, "", nil)
	return decode(path, raw, out, err)
}

// post sends in as JSON, nil for nothing, and takes out.
func (e *engine) post(ctx context.Context, path string, in, out any) error {
	var body io.Reader
	kind := ""
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode request %s: %w", path, err)
		}
		body, kind = bytes.NewReader(raw), "application/json"
	}
	raw, err := e.request(ctx, http.MethodPost, path, kind, body)
	return decode(path, raw, out, err)
}

func decode(path string, raw []byte, out any, err error) error {
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("decode answer to %s: %w", path, err)
	}
	return nil
}

// mostAnswer bounds an engine's answer, in bytes.
const mostAnswer = 16 << 20

// request speaks the Engine API. Paths carry no version: an engine then speaks
// its own, and what is used here is the same from 1.40 (Docker 19.03) on.
func (e *engine) request(ctx context.Context, method, path, kind string, body io.Reader) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://docker"+path, body)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", path, err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	client := http.Client{Transport: &http.Transport{DialContext: e.dial, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", path, errors.Join(err, context.Cause(ctx)))
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	if err == nil && len(raw) > mostAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", mostAnswer)
	}
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", path, err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		var told struct{ Message string }
		_ = json.Unmarshal(raw, &told) // without a message the status must do
		return nil, fmt.Errorf("request %s: %s: %s", path, resp.Status, told.Message)
	}
	return raw, nil
}
