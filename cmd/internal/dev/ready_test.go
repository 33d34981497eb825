package dev

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// TestNotReadyIsTold: a session that gives up says what was not ready, and what to do; one that somebody ends does not.
func TestNotReadyIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ask := func(context.Context) (*api.Readiness, error) {
			return &api.Readiness{Checks: []api.Check{{Name: "ledger", Error: "connection refused"}, {Name: "intake", OK: true}, {Name: "topics", Error: "missing: events.acme.orders"}}}, nil
		}
		err := waitReady(t.Context(), ask, time.Minute)
		if err == nil || !strings.Contains(err.Error(), "stops: ledger: connection refused; topics: missing: events.acme.orders; mend that, and run the same command again") {
			t.Error(err)
		}
		interrupted := errors.New("interrupted")
		ctx, end := context.WithCancelCause(t.Context())
		end(interrupted)
		if err := waitReady(ctx, ask, time.Hour); !errors.Is(err, interrupted) {
			t.Error(err)
		}
	})
}

// TestReadyPieceByPiece: what becomes ready piece by piece is waited for, however long all of it takes; what stops to is given up.
func TestReadyPieceByPiece(t *testing.T) {
	t.Parallel()
	for stopsAt, want := range map[int]bool{0: true, 2: false} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			err := waitReady(t.Context(), func(context.Context) (*api.Readiness, error) {
				lacks := max(5-int(time.Since(began)/(40*time.Second)), stopsAt)
				return &api.Readiness{Ready: lacks == 0, Checks: make([]api.Check, lacks)}, nil
			}, time.Minute)
			if (err == nil) != want {
				t.Error(stopsAt, err)
			}
		})
	}
}
