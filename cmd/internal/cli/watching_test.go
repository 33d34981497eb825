package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
)

// TestWatch asks several times: what is new is written, once, and the process may be away in between, but not in the beginning.
func TestWatch(t *testing.T) {
	t.Parallel()
	rounds := []string{"a\nb\n", "a\nb\n", "", "b\nc\n"}
	for _, tt := range []struct{ output, want string }{
		{"id", "a\nb\nc\n"}, {"jsonl", "a\nb\nc\n"}, {"table", "a\nb\nb\nc\n"}, {"json", "a\nb\nb\nc\n"},
	} {
		ctx, stop := context.WithCancel(t.Context())
		var out, errs bytes.Buffer
		e := &env{ctx: ctx, output: tt.output, Options: Options{Stdout: &out, Stderr: &errs}}
		n := 0
		err := e.watching(time.Millisecond, func() error {
			text := rounds[n]
			if n++; n == len(rounds) {
				stop()
			}
			if text == "" {
				return schemas.Errorf(schemas.Unavailable, "ask", "away")
			}
			_, err := fmt.Fprint(e.Stdout, text)
			return err
		})
		stop()
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Errorf("-o %s (-want +got):\n%s", tt.output, diff)
		}
		if x, ok := errors.AsType[*exitError](err); !ok || x.code != exitInterrupt || x.err != nil || strings.Count(errs.String(), "asking again") != 1 {
			t.Errorf("-o %s ends with %v, told %q", tt.output, err, errs.String())
		}
	}
	e := &env{ctx: t.Context(), output: "id", Options: Options{Stdout: &bytes.Buffer{}}}
	if err := e.watching(time.Hour, func() error { return schemas.Errorf(schemas.Unavailable, "ask", "away") }); schemas.KindOf(err) != schemas.Unavailable {
		t.Errorf("nobody answers in the beginning: %v", err)
	}
}

// TestWatchACommand watches a list by the command line until it is interrupted. What the list leaves out is not said between its lines.
func TestWatchACommand(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 2 {
			stop()
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"items":[{"team":"acme","source":"orders-%d"}],"elsewhere":["acme.pay"]}`, asked)
	}))
	defer s.Close()
	var out, errs bytes.Buffer
	code := Main(ctx, []string{"sources", "list", "--watch", "-o", "id", "--url", s.URL}, Options{Stdout: &out, Stderr: &errs})
	if code != exitInterrupt || !strings.HasPrefix(out.String(), "acme/orders-1\n") || asked != 2 || errs.Len() > 0 {
		t.Errorf("exit code %d after %d questions:\n%s%s", code, asked, out.String(), errs.String())
	}
}
