package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
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
