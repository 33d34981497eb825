package app

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/stream/inbox"
)

// Questions that read the log wait for a turn: each has a client with its buffers, in the process that runs the lanes of all teams.
func TestSearchesOfTheLogTakeTurns(t *testing.T) {
	t.Parallel()
	i := unowned(t, newLedger(t))
	a := i.inbox.s.a
	if err := a.searches.Acquire(t.Context(), searchesAtOnce); err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func(context.Context) error{
		"a delivery": func(ctx context.Context) error {
			_, err := i.inbox.delivered(ctx, inbox.New(i.l), api.InboxFilter{Delivery: "nothing", Limit: 10})
			return err
		},
		"quarantine": func(ctx context.Context) error {
			_, err := (&quarantineAPI{a: a}).Quarantined(ctx, api.QuarantineFilter{Limit: 10})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := ask(ctx); err == nil || !strings.Contains(err.Error(), "other searches of the log are under way") {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}
