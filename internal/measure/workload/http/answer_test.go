package http

import (
	"strings"
	"testing"
)

const good = "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\ncontent-length: 5\r\nConnection: keep-alive\r\n\r\nhello"

func TestAnswers(t *testing.T) {
	long := "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHeader) + "\r\n\r\n"
	for _, tc := range []struct{ name, in, fails string }{
		{"good", good, ""},
		{"no reason phrase", "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", ""},
		{"not found", "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello", `"404 Not Found"`},
		{"near 200", "HTTP/1.1 2000\r\nContent-Length: 5\r\n\r\nhello", `"2000"`},
		{"other length", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell", "expected 5"},
		{"no number", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nhello", `Content-Length of "x"`},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "no Content-Length"},
		{"too much", good + "x", "more than"},
		{"garbage", "SSH-2.0-OpenSSH", "does not speak"},
		{"long header", long, "longer than"},
	} {
		for _, step := range []int{1, 7, 1 << 20} { // as it may come in
			a := newAnswer(5)
			done, err := false, error(nil)
			for in := tc.in; in != "" && err == nil; {
				n := min(step, len(in))
				done, err = a.feed([]byte(in[:n]))
				in = in[n:]
			}
			switch {
			case tc.fails == "" && (err != nil || !done):
				t.Errorf("%s by %d: %v, %v", tc.name, step, done, err)
			case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
				t.Errorf("%s by %d: got %v, want %q", tc.name, step, err, tc.fails)
			}
		}
	}
}

func TestAnswersAreReset(t *testing.T) {
	a := newAnswer(5)
	for range 3 {
		a.reset()
		if done, err := a.feed([]byte(good[:30])); done || err != nil {
			t.Fatal(done, err)
		}
		if done, err := a.feed([]byte(good[30:])); !done || err != nil || a.server != "nginx/1.22.1" {
			t.Fatal(done, err, a.server)
		}
	}
}

// FuzzAnswer: however an answer is cut, it is read the same.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(good), 3)
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n"), 1)
	f.Add([]byte("HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\n"), 9)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		if cut < 0 || cut >= len(in) {
			return
		}
		whole, parts := newAnswer(5), newAnswer(5)
		done, err := whole.feed(in)
		part, perr := parts.feed(in[:cut])
		if perr == nil && (!part || cut < len(in)) {
			part, perr = parts.feed(in[cut:])
		}
		if (err == nil) != (perr == nil) || err == nil && done != part {
			t.Errorf("whole: %v, %v; cut at %d: %v, %v", done, err, cut, part, perr)
		}
	})
}
