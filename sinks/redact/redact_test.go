package redact

import (
	"errors"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

const hush = "hush-hush-hush"

func TestHeadShowsNoPartOfASecret(t *testing.T) {
	t.Parallel()
	r := New(Words(schemas.NewSecret("Bearer "+hush), schemas.NewSecret("short"))...)
	for n := sink.MaxResponse - 2*len(hush); n < sink.MaxResponse+2*len(hush); n++ {
		body := strings.Repeat("x", n) + hush + strings.Repeat("y", n) + "short"
		got := string(r.Answer(strings.NewReader(body), int64(len(body))))
		if len(got) > sink.MaxResponse || !strings.HasPrefix(got, strings.Repeat("x", min(n, sink.MaxResponse)-len(hush)-len("Bearer "))) {
			t.Fatalf("%d bytes kept", len(got))
		}
		if strings.Contains(got, "hus") {
			t.Fatalf("behind %d bytes a part of the secret is left: %q", n, got[len(got)-32:])
		}
	}
	if got := string(r.Answer(strings.NewReader("a short "+hush+" answer"), -1)); got != "a short <redacted> answer" {
		t.Errorf("kept %q", got)
	}
}

func TestErrKeepsTheClass(t *testing.T) {
	t.Parallel()
	r := New(hush)
	err := r.Err(&sink.AttemptError{Class: sink.ClassDenied, Err: errors.New("no entry for " + hush)})
	if want := "denied: no entry for <redacted>"; sink.ClassOf(err) != sink.ClassDenied || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	plain := errors.New("plain")
	if got := r.Err(plain); got != plain {
		t.Errorf("an error without a secret became %v", got)
	}
	if r.Err(nil) != nil {
		t.Error("nil became an error")
	}
}
