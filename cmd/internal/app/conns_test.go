package app

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

// TestEachAttemptHasAConnection: as many attempts as a postgres destination may have under way are, at once. None of them
// spends its time on a wait for another one, however slow the statements are.
func TestEachAttemptHasAConnection(t *testing.T) {
	t.Parallel()
	url := rig.Database(t)
	t.Cleanup(rig.StopShared) // no other test of the package has a database
	text := strings.Replace(rankedFile, "{out: {type: log}}", `{out: {type: postgres, concurrency: 12, allow_networks: [127.0.0.0/8, "::1/128"],
        database: "`+url+`", statement: SELECT pg_advisory_xact_lock_shared(5)}}`, 1)
	c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(text), Embedded: true})
	if err != nil {
		t.Fatal(err)
	}
	all, err := destinations(c, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	sink := all["acme/out"].Sink
	defer func() { _ = sink.Close(context.Background()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.Background()) }()
	if _, err := db.Exec(ctx, `SELECT pg_advisory_lock(5)`); err != nil {
		t.Fatal(err)
	}
	ends := make(chan error, 12)
	for i := range 12 {
		go func() {
			_, err := sink.Do(ctx, sinktest.Action(i))
			ends <- err
		}()
	}
	for waiting := 0; waiting < 12; <-time.After(5 * time.Millisecond) {
		err := db.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`).Scan(&waiting)
		if err != nil {
			t.Errorf("%d statements are under way: %v", waiting, err)
			break
		}
	}
	_ = db.Close(context.Background()) // and the lock with it
	for range 12 {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
}

// TestStatementsOfAllTeamsHaveConnections: the ledger has one for each that may be under way, so that no team's slow ones
// keep those of another waiting.
func TestStatementsOfAllTeamsHaveConnections(t *testing.T) {
	t.Parallel()
	text := strings.Replace(rankedFile, "{out: {type: log}}", "{out: {type: postgres, statement: SELECT 1, concurrency: 7}}", 1) + `
  others:
    destinations:
      a: {type: postgres, statement: SELECT 1}
      b: {type: postgres, statement: SELECT 1, database: "postgres://u:p@db.example/b"}
postgres: {statements: true, connections: 9, transaction_timeout: 45s}
`
	c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(text), Embedded: true})
	if err != nil {
		t.Fatal(err)
	}
	var a App
	a.current.Store(c)
	got, err := a.ledgerConfig(c.Ledger())
	if err != nil || got.StatementConns != 7+4 || got.MaxConns != 9 {
		t.Errorf("%d and %d connections", got.StatementConns, got.MaxConns)
	}
	if got.TxTimeout != 45*time.Second {
		t.Errorf("transactions of %s", got.TxTimeout)
	}
}
