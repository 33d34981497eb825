package ingest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// talk sends text as it is on one connection and gives the status of every answer until the server closes.
func (in *intake) talk(text string) (statuses []int) {
	in.t.Helper()
	conn, err := net.Dial("tcp", in.server.Listener.Addr().String())
	if err != nil {
		in.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, text); err != nil {
		in.t.Fatal(err)
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	for from := bufio.NewReader(conn); ; {
		resp, err := http.ReadResponse(from, nil)
		if err != nil {
			return statuses
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		statuses = append(statuses, resp.StatusCode)
	}
}

// What a forger or a broken proxy does to the frame of a request: either it is refused, or exactly what was signed is
// taken. Nothing is taken twice or in part.
func TestFrames(t *testing.T) {
	t.Parallel()
	good := sign([]byte("body"))
	line, length := "POST "+inPath+" HTTP/1.1\r\nHost: x\r\n", "Content-Length: 4\r\n"
	signature := "X-Signature: " + good + "\r\n"
	const end = "Connection: close\r\n\r\n"
	for _, test := range []struct {
		name, text string
		want       []int
		taken      int
	}{
		{"plain", line + length + signature + end + "body", []int{202}, 1},
		{"HTTP/1.0", "POST " + inPath + " HTTP/1.0\r\n" + length + signature + "\r\nbody", []int{202}, 1},
		{"absolute form", "POST http://evil.example" + inPath + " HTTP/1.1\r\nHost: x\r\n" + length + signature + end + "body", []int{202}, 1},
		{"absolute form of another path", "POST http://evil.example/?" + inPath + " HTTP/1.1\r\nHost: x\r\n" + length + signature + end + "body", []int{404}, 0},
		{"query", "POST " + inPath + "?team=other HTTP/1.1\r\nHost: x\r\n" + length + signature + end + "body", []int{202}, 1},
		{"slash in the team", "POST /v1/in/acme%2Forders/x HTTP/1.1\r\nHost: x\r\n" + length + signature + end + "body", []int{401}, 0},
		{"dots", "POST /v1/in/acme/x/%2e%2e/orders HTTP/1.1\r\nHost: x\r\n" + length + signature + end + "body", []int{404}, 0},
		{"a long path", "POST /v1/in/acme/" + strings.Repeat("x", 100_000) + " HTTP/1.1\r\nHost: x\r\n" + length + signature + end + "body", []int{401}, 0},
		{"signature twice", line + length + signature + signature + end + "body", []int{401}, 0},
		{"signature with an underscore", line + length + "X_Signature: " + good + "\r\n" + end + "body", []int{401}, 0},
		{"folded header", line + length + "X-Signature:\r\n " + good + "\r\n" + end + "body", []int{202}, 1},
		{"space before the colon", line + length + "X-Signature : " + good + "\r\n" + end + "body", []int{400}, 0},
		{"two lengths", line + length + "Content-Length: 40\r\n" + signature + end + "body", []int{400}, 0},
		{"length and chunks", line + length + "Transfer-Encoding: chunked\r\n" + signature + end + "4\r\nbody\r\n0\r\n\r\n", []int{202}, 1},
		{"length beside chunks of something else", line + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n" + signature + end + "3\r\nbod\r\n0\r\n\r\n", []int{401}, 0},
		{"unknown coding", line + length + "Transfer-Encoding: xchunked\r\n" + signature + end + "body", []int{501}, 0},
		{"chunks with an extension and a trailer", line + "Transfer-Encoding: chunked\r\nTrailer: X-Signature\r\n" + end +
			"4;a=b\r\nbody\r\n0\r\nX-Signature: " + good + "\r\n\r\n", []int{401}, 0},
		{"shorter than its length", line + "Content-Length: 10\r\n" + signature + end + "body", []int{400}, 0},
		{"longer than its length", line + length + signature + end + "bodytrailing", []int{202}, 1},
		{"malformed chunk", line + "Transfer-Encoding: chunked\r\n" + signature + end + "zz\r\n", []int{400}, 0},
		{"chunks that never end", line + "Transfer-Encoding: chunked\r\n" + signature + end + "4\r\nbody\r\n", []int{400}, 0},
		{"no host", "POST " + inPath + " HTTP/1.1\r\n" + length + signature + end + "body", []int{400}, 0},
		{"expects to be asked", line + length + "Expect: 100-continue\r\n" + signature + end + "body", []int{100, 202}, 1},
		{"too large to be asked for", line + "Content-Length: 99999\r\nExpect: 100-continue\r\n" + signature + end, []int{413}, 0},
		{"one behind the other", line + length + signature + "\r\nbody" + line + length + signature + end + "body", []int{202, 202}, 2},
		{"another request inside", line + "Content-Length: 4\r\n" + signature + "\r\nbody" + "GET /admin HTTP/1.1\r\nHost: x\r\n" + end, []int{202, 404}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			in := setup(t, nil)
			if diff := cmp.Diff(test.want, in.talk(test.text)); diff != "" {
				t.Errorf("answers (-want +got): %s", diff)
			}
			if n := len(in.log.events); n != test.taken || len(in.log.deliveries) != 0 {
				t.Errorf("%d events, %d kept, want %d", n, len(in.log.deliveries), test.taken)
			}
			for _, e := range in.log.events {
				if string(e.Data) != "body" {
					t.Errorf("taken: %q", e.Data)
				}
			}
			if leaks := fmt.Sprint(in.lines); strings.Contains(leaks, good) || len(leaks) > 4000 {
				t.Errorf("lines: %.4000s", leaks)
			}
		})
	}
}
