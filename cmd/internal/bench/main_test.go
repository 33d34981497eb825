package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// TestMain lets this test binary be the parts of scenarios, as forebay-bench is.
func TestMain(m *testing.M) {
	if code, is := Child(os.Args[1:]); is {
		os.Exit(code)
	}
	code := m.Run()
	if database.url != "" {
		if err := execOn(context.Background(), os.Getenv("TEST_DATABASE_URL"), `DROP DATABASE `+database.name+` WITH (FORCE)`); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

// database is one for all tests: to migrate one takes longer than most of them. Every run has names of its own there, except for the tables
// of the rivals: tests that make those are not parallel.
var database struct {
	once      sync.Once
	name, url string
}

// tiny is a run that takes no time.
func tiny(t *testing.T) Options {
	t.Helper()
	server := pgtest.URL(t)
	database.once.Do(func() {
		u, err := url.Parse(server)
		if err != nil {
			t.Fatal(err)
		}
		database.name = "bench" + strings.ToLower(rand.Text())
		if err := execOn(t.Context(), server, `CREATE DATABASE `+database.name); err != nil {
			t.Fatal(err)
		}
		u.Path = "/" + database.name
		database.url = u.String()
	})
	return Options{Postgres: database.url, Round: 50 * time.Millisecond, Rounds: 1, Progress: t.Output()}
}

func opened(t *testing.T) *pgServer {
	t.Helper()
	o := tiny(t)
	pg, err := o.openPostgres(t.Context(), newReport(o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pg.close)
	return pg
}

func connected(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(t.Context()) })
	return conn
}

// number is the one number that a query answers.
func number(t *testing.T, conn *pgx.Conn, query string, args ...any) (n int64) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
