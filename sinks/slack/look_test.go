package slack_test

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

// A look that ends undecided names how many messages it has seen, however few Slack gives to a page.
func TestLookNamesWhatItHasSeen(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]string{1: "more than 10 messages", 3: "more than 30 messages"} {
		f := newFake()
		f.size = size
		for range 10*size + 1 {
			f.add(map[string]any{"channel": channel})
		}
		a := sinktest.Action(1)
		a.Attempt, a.FirstAt = 2, time.Now()
		if _, err := must(t, serve(t, f), token, simple()).Do(t.Context(), a); err == nil || !strings.Contains(err.Error(), want) || f.Done() != 0 {
			t.Errorf("%d to a page: %v", size, err)
		}
	}
}
