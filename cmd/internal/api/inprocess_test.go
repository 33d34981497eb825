package api

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/schemas"
)

// A page asks in goroutines of its own: what panics in a question is in the log, and the page is told.
func TestAQuestionOfAPageThatPanics(t *testing.T) {
	t.Parallel()
	var cfg Config
	(&world{}).config(&cfg)
	cfg.Sources = func() []SourceItem { panic("out of luck") }
	var log bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	pages, err := InProcess(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pages.Sources(t.Context()); schemas.KindOf(err) != schemas.Internal || !strings.Contains(err.Error(), "its log says where") {
		t.Error(err)
	}
	for _, want := range []string{"out of luck", "GET /v1/sources", "inprocess_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q: %s", want, &log)
		}
	}
	if got, err := pages.Subscriptions(t.Context()); err != nil || len(got.Items) == 0 {
		t.Errorf("afterwards: %+v %v", got, err)
	}
}
