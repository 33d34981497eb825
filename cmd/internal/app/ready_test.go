package app

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/forebay-io/forebay/schemas"
)

// A part that has come through what it waits for is ready when it says so, and not a moment before: what is produced in that
// moment would lie before a new subscription's begin.
func TestReadyWhenThePartSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &App{ready: newReadiness(), log: slog.New(slog.DiscardHandler)}
		const part = "subscription acme.triage"
		a.ready.set(part, errNotStarted)
		state := func() string { return a.ready.checks(t.Context())[0].Error }
		tries := 0
		err := a.patiently(t.Context(), part, func(context.Context) error {
			if tries++; tries == 1 {
				return schemas.Errorf(schemas.Unavailable, "open the ledger", "away")
			}
			if got := state(); got != "open the ledger: away" {
				t.Errorf("while it is waited for: %q", got)
			}
			return nil
		})
		if err != nil || tries != 2 {
			t.Fatalf("%v after %d tries", err, tries)
		}
		if state() == "" {
			t.Error("ready before it said so")
		}
		a.ready.probe(part, func(context.Context) error { return errors.New("its begin is not stored") })
		if got := state(); got != "its begin is not stored" {
			t.Errorf("asked: %q", got)
		}
		a.ready.set(part, nil)
		if got := state(); got != "" {
			t.Errorf("set: %q", got)
		}
	})
}
