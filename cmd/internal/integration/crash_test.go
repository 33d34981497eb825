package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// The crash tests: kill -9 of the process between any two steps of an attempt, one test per idempotency kind. Each entity
// stands at another step when the one kill comes; the counts are taken at what was acted on.

// crash is a deployment whose orders go to a destination of the test's.
type crash struct {
	*deployment
	p  *process
	db *pgx.Conn // to the ledger's database, for locks
}

func newCrash(t *testing.T, destination string, edits ...string) *crash {
	t.Helper()
	c := &crash{deployment: deploy(t, rig.Fake(t), options{})}
	c.edit("    destinations:\n", "    destinations:\n      target: {"+destination+"}\n")
	c.edit("actions: [{name: run, to: shop}]", "actions: [{name: run, to: target}]")
	for i := 0; i < len(edits); i += 2 {
		c.edit(edits[i], edits[i+1])
	}
	c.db = connect(t, c.dbURL)
	c.p = c.serve("intake,stream")
	return c
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func count(t *testing.T, conn *pgx.Conn, sql string, args ...any) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// until waits for what the test rests on.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	if !rig.Until(time.Minute, is) {
		t.Fatalf("after a minute still not: %s", what)
	}
}

func (c *crash) order(entity string, rev int) {
	c.t.Helper()
	if err := c.sender.deliver(c.t.Context(), order(entity, rev)); err != nil {
		c.t.Fatal(err)
	}
}

// status waits until an event has a status.
func (c *crash) status(entity string, rev int, want string) {
	c.t.Helper()
	last, id := "", order(entity, rev).id
	if !rig.Until(time.Minute, func() bool {
		items, err := c.items(c.p, "--subscription", "fulfil", "--limit", "100")
		for _, i := range items {
			if i.EventID == id {
				last = i.Status
			}
		}
		return err == nil && last == want
	}) {
		c.t.Errorf("%s is %q, want %q", id, last, want)
	}
}

// holdResults keeps results from being recorded, until its end.
func (c *crash) holdResults() {
	c.t.Helper()
	execute(c.t, c.db, `BEGIN`)
	execute(c.t, c.db, `LOCK TABLE forebay.completions, forebay.actions IN EXCLUSIVE MODE`)
}

const blocked = `SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`

// crash kills the process with everything that it waits for in the ledger: what was not committed never will be.
func (c *crash) crash() {
	c.t.Helper()
	me := int(c.db.PgConn().PID())
	until(c.t, "a result waits for the ledger", func() bool { return count(c.t, c.db, blocked, me) > 0 })
	c.p.kill()
	execute(c.t, c.db, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`, me)
	until(c.t, "what waited is gone", func() bool { return count(c.t, c.db, blocked, me) == 0 })
	execute(c.t, c.db, `ROLLBACK`)
}

// crashUnheard kills the process while it waits for the ledger, which then commits what it was sent: nobody hears of that.
func (c *crash) crashUnheard() {
	c.t.Helper()
	me := int(c.db.PgConn().PID())
	until(c.t, "a result waits for the ledger", func() bool { return count(c.t, c.db, blocked, me) > 0 })
	c.p.kill()
	execute(c.t, c.db, `ROLLBACK`)
}

func (c *crash) restart() { c.t.Helper(); c.p = c.serve("intake,stream") }

// keyed is an HTTP destination that acts once per Idempotency-Key, and stops at the step that an entity is named for.
type keyed struct {
	*httptest.Server
	answer chan struct{} // closed: "uncommitted" is answered

	mu      sync.Mutex
	keys    map[string][]string // of the attempts, by entity
	effects map[string]int      // by entity
	seen    map[string]bool
}

func newKeyed(t *testing.T) *keyed {
	k := &keyed{answer: make(chan struct{}), keys: map[string][]string{}, effects: map[string]int{}, seen: map[string]bool{}}
	k.Server = httptest.NewServer(k)
	t.Cleanup(func() { k.CloseClientConnections(); k.Close() })
	return k
}

func (k *keyed) act(entity, key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.seen[key] {
		k.seen[key] = true
		k.effects[entity]++
	}
}

// attempt notes an attempt and says which one it is.
func (k *keyed) attempt(entity, key string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys[entity] = append(k.keys[entity], key)
	return len(k.keys[entity])
}

func (k *keyed) attempts(entity string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.keys[entity])
}

func (k *keyed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	entity, key := r.Header.Get("ce-partitionkey"), r.Header.Get("Idempotency-Key")
	step := entity
	if k.attempt(entity, key) > 1 {
		step = "well"
	}
	switch step {
	case "before":
		<-r.Context().Done()
		return
	case "after":
		k.act(entity, key)
		<-r.Context().Done()
		return
	case "answering":
		k.act(entity, key)
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half an ans")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	case "uncommitted":
		<-k.answer
	}
	k.act(entity, key)
}

// TestKilledIdempotent: before acting, after acting, while answering, answered and not recorded, recorded. The effect comes
// once at the destination that checks keys, under one key; what was recorded is not attempted again.
func TestKilledIdempotent(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	c := newCrash(t, `type: http, url: "`+k.URL+`", timeout: 8s, retry: {attempts: 5, within: 10m, min: 50ms, max: 500ms}, allow_networks: [127.0.0.0/8]`)
	steps := []string{"committed", "before", "after", "answering", "uncommitted"}
	for _, s := range steps {
		c.order(s, 1)
	}
	c.status("committed", 1, "done")
	until(t, "every attempt stands at its step", func() bool {
		return !slices.ContainsFunc(steps, func(s string) bool { return len(k.attempts(s)) != 1 })
	})
	c.holdResults()
	close(k.answer)
	c.crash()
	for _, s := range steps {
		if n := len(k.attempts(s)); n != 1 {
			t.Fatalf("%s: %d attempts before the kill: the test came too late", s, n)
		}
	}
	c.restart()
	for _, s := range steps {
		c.status(s, 1, "done")
		keys := k.attempts(s)
		if want := map[bool]int{true: 1, false: 2}[s == "committed"]; len(keys) != want || len(slices.Compact(slices.Clone(keys))) != 1 {
			t.Errorf("%s: attempts under the keys %q, want %d under one", s, keys, want)
		}
	}
	if diff := cmp.Diff(map[string]int{"committed": 1, "before": 1, "after": 1, "answering": 1, "uncommitted": 1}, k.effects); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// payments is a database in which statements stop where their entity's name says.
const payments = `
CREATE SCHEMA shop;
CREATE TABLE shop.paid (entity text NOT NULL, at timestamptz NOT NULL DEFAULT now());
CREATE FUNCTION shop.pay(entity text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext('before ' || entity));
    INSERT INTO shop.paid VALUES (entity);
    PERFORM pg_advisory_xact_lock_shared(hashtext('after ' || entity));
END $$`

// killedInStatement kills the process before a statement acts, after it has acted and before its COMMIT, and with the
// COMMIT on its way.
func killedInStatement(t *testing.T, c *crash, shop *pgx.Conn) {
	execute(t, shop, payments)
	for _, point := range []string{"before before", "after after", "after doubt"} {
		execute(t, shop, `SELECT pg_advisory_lock(hashtext($1))`, point)
	}
	steps := []string{"committed", "before", "after", "doubt"}
	for _, s := range steps {
		c.order(s, 1)
	}
	c.status("committed", 1, "done")
	me := int(shop.PgConn().PID())
	until(t, "three statements stand at their step", func() bool { return count(t, shop, blocked, me) == 3 })
	c.p.kill()
	// The server has the COMMIT of "doubt" already, and nobody hears of it; the others are ended with their process.
	execute(t, shop, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'
		AND objid::bigint IN (hashtext('before before')::bigint & 4294967295, hashtext('after after')::bigint & 4294967295)`)
	until(t, "one of them is left", func() bool { return count(t, shop, blocked, me) == 1 })
	execute(t, shop, `SELECT pg_advisory_unlock_all()`)
	until(t, "what was in doubt is committed", func() bool {
		return count(t, shop, `SELECT count(*) FROM shop.paid WHERE entity = 'doubt'`) == 1
	})
	if n := count(t, shop, `SELECT count(*) FROM shop.paid`); n != 2 {
		t.Fatalf("%d are paid before the restart, want committed and doubt", n)
	}
	c.restart()
	for _, s := range steps {
		c.status(s, 1, "done")
		if n := count(t, shop, `SELECT count(*) FROM shop.paid WHERE entity = $1`, s); n != 1 {
			t.Errorf("%s is paid %d times", s, n)
		}
	}
	c.order("doubt", 2) // and its lane goes on
	c.status("doubt", 2, "done")
}

const pay = `statement: "SELECT shop.pay($1)", params: {values: ["{{event.entity}}"]}, timeout: 8s, retry: {attempts: 5, within: 10m, min: 50ms, max: 500ms}`

// TestKilledFenced: the statement runs in the ledger's transaction, so it takes effect exactly once.
func TestKilledFenced(t *testing.T) {
	t.Parallel()
	c := newCrash(t, `type: postgres, `+pay, `postgres: {`, `postgres: {statements: true, `)
	killedInStatement(t, c, connect(t, c.dbURL))
}

// TestKilledWithKeyTable: the same in another database, where the key is in the statement's transaction.
func TestKilledWithKeyTable(t *testing.T) {
	t.Parallel()
	url := rig.Database(t)
	c := newCrash(t, `type: postgres, database: "`+url+`", allow_networks: [127.0.0.0/8, "::1/128"], `+pay)
	killedInStatement(t, c, connect(t, url))
}

// command stops where its entity's name says, and knows nothing of keys.
const command = `
entity=$FOREBAY_ENTITY
echo "$FOREBAY_ACTION_ID" >>"$DIR/$entity.attempts"
hold() { while [ "$1" = "$entity" ] && ! [ -e "$DIR/$1.go" ]; do sleep 0.05; done; }
hold before
echo x >>"$DIR/$entity.effects"
hold after
hold unrecorded
exit 0`

// TestKilledUnsafe: what may have acted, by its mark, is unknown and left to an operator with all that stands behind it, and never attempted
// again by itself; what was killed before its mark was written runs; the others go on.
func TestKilledUnsafe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(t.TempDir(), "agent.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh"+command), 0o700); err != nil {
		t.Fatal(err)
	}
	c := newCrash(t, `type: exec, command: ["`+script+`"], env: {DIR: "`+dir+`"}, timeout: 8s, retry: {attempts: 5, within: 10m, min: 50ms, max: 500ms}`,
		"version: 1\n", "version: 1\nexec: {enabled: true}\n")
	lines := func(entity, of string) []string {
		b, err := os.ReadFile(filepath.Join(dir, entity+"."+of))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Fields(string(b))
	}
	steps := []string{"committed", "before", "after", "unrecorded"}
	for _, s := range steps {
		c.order(s, 1)
	}
	c.status("committed", 1, "done")
	until(t, "every command stands at its step", func() bool {
		return !slices.ContainsFunc(steps, func(s string) bool { return len(lines(s, "attempts")) != 1 }) &&
			len(lines("after", "effects")) == 1 && len(lines("unrecorded", "effects")) == 1
	})
	c.holdResults()
	if err := os.WriteFile(filepath.Join(dir, "unrecorded.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.order("unmarked", 1)
	c.crash()
	if n := len(lines("unmarked", "attempts")); n != 0 {
		t.Fatalf("a command ran %d times before its mark was written", n)
	}
	c.restart()
	c.order("committed", 2)
	c.order("before", 2)
	c.status("committed", 2, "done")
	c.status("unmarked", 1, "done")
	for _, s := range []string{"before", "after", "unrecorded"} {
		c.status(s, 1, "unknown")
	}
	c.status("before", 2, "parked")
	c.holdResults()
	c.order("marked", 1)
	c.crashUnheard() // the mark is committed, and no command has begun
	c.restart()
	c.status("marked", 1, "unknown")
	got := map[string]string{}
	for _, s := range append(steps, "unmarked", "marked") {
		got[s] = fmt.Sprintf("%d attempts, %d effects", len(lines(s, "attempts")), len(lines(s, "effects")))
	}
	want := map[string]string{
		"committed": "2 attempts, 2 effects", "before": "1 attempts, 0 effects", "after": "1 attempts, 1 effects",
		"unrecorded": "1 attempts, 1 effects", "unmarked": "1 attempts, 1 effects", "marked": "0 attempts, 0 effects",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what ran (-want +got):\n%s", diff)
	}
}
