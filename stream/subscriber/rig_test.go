package subscriber_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/internal/streamtest"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
	"github.com/forebay-io/forebay/stream/subscriber"
)

// fixture is a topic, a team's schema with a table of its own, and members of its group.
type fixture struct {
	*streamtest.Rig
	url  string // of the team's schema
	pool *pgxpool.Pool
}

func setup(t *testing.T, partitions int32) *fixture {
	t.Helper()
	server, schema := pgtest.Schema(t)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	f := &fixture{url: u.String()}
	f.pool = f.connect(t, f.url)
	for _, sql := range []string{`CREATE SCHEMA ` + schema, subscriber.SQL, subscriber.SQL, // which may be run again
		`CREATE TABLE ran (n bigint GENERATED ALWAYS AS IDENTITY, entity text, version text, id text, decision text, reason text)`} {
		if _, err := f.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	f.Rig = streamtest.NewRig(t, partitions)
	return f
}

func (f *fixture) connect(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// through is a pool behind a proxy that breaks connections.
func (f *fixture) through(t *testing.T) (*pgtest.Proxy, *pgxpool.Pool) {
	t.Helper()
	u, err := url.Parse(f.url)
	if err != nil {
		t.Fatal(err)
	}
	p := pgtest.NewProxy(t, u.Host)
	u.Host = p.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return p, f.connect(t, u.String())
}

// hangs is a pool whose connections hang, without a word, as soon as a statement is sent over them. The channel is closed then.
func (f *fixture) hangs(t *testing.T, statement string) (<-chan struct{}, *pgxpool.Pool) {
	t.Helper()
	u, err := url.Parse(f.url)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hung, ended, all, server := make(chan struct{}), make(chan struct{}), sync.WaitGroup{}, u.Host
	hang := sync.OnceFunc(func() { close(hung) })
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { passUntil(conn, server, []byte(statement), hang, ended) })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	u.Host = l.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	pool := f.connect(t, u.String())
	t.Cleanup(func() { close(ended) })
	return hung, pool
}

// passUntil passes a connection on to a server, until a statement is among what the client says: from then on the client hears nothing
// until the test ends.
func passUntil(client net.Conn, server string, statement []byte, hang func(), ended <-chan struct{}) {
	defer client.Close()
	upstream, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	var gone atomic.Bool
	var answers sync.WaitGroup
	answers.Go(func() {
		_, _ = io.Copy(client, upstream)
		if gone.Load() {
			select {
			case <-ended:
			case <-time.After(2 * streamtest.Patience): // so that a test that fails ends
			}
		}
		client.Close()
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			break
		}
		if !gone.Load() && bytes.Contains(buf[:n], statement) {
			gone.Store(true)
			upstream.Close()
			hang()
		}
		if !gone.Load() {
			_, _ = upstream.Write(buf[:n])
		}
	}
	upstream.Close()
	answers.Wait()
}

// insert is the team's handler: a row of its table for every event that runs.
func insert(ctx context.Context, tx pgx.Tx, e subscriber.Event) error {
	_, err := tx.Exec(ctx, `INSERT INTO ran (entity, version, id, decision, reason) VALUES ($1, $2, $3, $4, $5)`,
		e.Entity, e.Version.Sortable(), e.ID, e.Decision, e.Reason)
	return err
}

// config is what the tests' members have in common; what matters to a test is changed by it.
func (f *fixture) config(change ...func(*subscriber.Config)) subscriber.Config {
	c := subscriber.Config{
		Pool: f.pool, Group: "acme.projection", Topics: []string{streamtest.Topic}, Handler: insert, Begin: subscriber.BeginAll,
		Kafka:  []kgo.Opt{f.Seed(), kgo.SessionTimeout(10 * time.Second), kgo.HeartbeatInterval(50 * time.Millisecond)},
		Policy: gate.Policy{Start: gate.StartFirst, GapWait: time.Hour},
	}
	for _, do := range change {
		do(&c)
	}
	return c
}

// member is a subscriber that runs.
type member struct {
	stop func() error // and wait for its end; again it does nothing
	gone chan struct{}
	err  atomic.Pointer[error]
}

func (f *fixture) start(t *testing.T, change ...func(*subscriber.Config)) *member {
	t.Helper()
	s, err := subscriber.New(f.config(change...))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	m := &member{gone: make(chan struct{})}
	go func() {
		defer close(m.gone)
		err := s.Run(ctx)
		m.err.Store(&err)
	}()
	m.stop = func() error { cancel(); <-m.gone; return *m.err.Load() }
	t.Cleanup(func() { _ = m.stop() })
	return m
}

// revision is an order's revision, which has its body by its number.
func revision(entity string, rev int64) *schemas.Event {
	e := streamtest.Event(int(rev))
	e.ID, e.Entity = fmt.Sprintf("%s-%d", entity, rev), schemas.EntityKey(entity)
	e.Version, e.First = schemas.Version{Kind: schemas.Sequence, Value: rev}, new(int64(1))
	return e
}

// send puts events into the topic, each in its key's partition.
func (f *fixture) send(events ...*schemas.Event) {
	f.T.Helper()
	var all []*kgo.Record
	for _, e := range events {
		r := record.Encode(streamtest.Topic, e)
		r.Partition = record.Place(r, f.Parts)
		all = append(all, r)
	}
	f.Send(all...)
}

// query returns rows as text, a line each.
func (f *fixture) query(sql string) string {
	f.T.Helper()
	rows, err := f.pool.Query(f.T.Context(), sql)
	if err != nil {
		f.T.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.T.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// ran is what the handler has written, in its order.
func (f *fixture) ran() string {
	f.T.Helper()
	return f.query(`SELECT concat_ws(' ', id, decision, reason) FROM ran ORDER BY n`)
}

// waitFor waits until a query answers want.
func (f *fixture) waitFor(want, sql string) {
	f.T.Helper()
	if !streamtest.Until(func() bool { return f.query(sql) == want }) {
		f.T.Fatalf("%s is\n%s\nwant\n%s", sql, f.query(sql), want)
	}
}

// waitRead waits until every partition's position is the end of its log.
func (f *fixture) waitRead() {
	f.T.Helper()
	ends, err := f.Adm.ListEndOffsets(f.Ctx(), streamtest.Topic)
	if err != nil {
		f.T.Fatal(err)
	}
	sum := int64(0)
	for _, o := range ends.Offsets()[streamtest.Topic] {
		sum += o.At
	}
	f.waitFor(fmt.Sprint(sum), `SELECT coalesce(sum(next_offset), 0)::text FROM forebay_positions`)
}
