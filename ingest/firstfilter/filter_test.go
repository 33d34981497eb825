package firstfilter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/short"
)

func TestMain(m *testing.M) {
	// What the library leaves of an attempt to connect ends within a second.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// redis is a redis-server that listens on a socket of its own.
type redis struct {
	t    testing.TB
	dir  string
	args []string
	cmd  *exec.Cmd
}

// serve starts a redis-server with more arguments.
func serve(t testing.TB, args ...string) *redis {
	t.Helper()
	dir, err := os.MkdirTemp("", "redis") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	r := &redis{t: t, dir: dir, args: append([]string{"--port", "0", "--unixsocket", filepath.Join(dir, "s"), "--save", "", "--dir", dir}, args...)}
	t.Cleanup(func() {
		r.kill()
		_ = os.RemoveAll(dir)
	})
	r.start()
	return r
}

func (r *redis) url() string { return "unix://" + filepath.Join(r.dir, "s") }

func (r *redis) start() {
	r.t.Helper()
	short.NeedsServer(r.t, "redis-server")
	server, err := exec.LookPath("redis-server")
	if err != nil {
		r.t.Fatal("redis-server is not installed: `make deps` installs it")
	}
	r.cmd = exec.Command(server, r.args...)
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.until("redis-server answers", func() bool {
		c, err := net.Dial("unix", filepath.Join(r.dir, "s"))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func (r *redis) kill() {
	if r.cmd != nil {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		r.cmd = nil
	}
}

func (r *redis) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// do sends a command on a connection of its own.
func (r *redis) do(words ...string) rueidis.RedisResult {
	r.t.Helper()
	opt, err := options(schemas.NewSecret(r.url()))
	if err != nil {
		r.t.Fatal(err)
	}
	client, err := rueidis.NewClient(opt)
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	return client.Do(r.t.Context(), client.B().Arbitrary(words...).Build())
}

// until waits for a state of another process, or of a goroutine that gives no signal.
func (r *redis) until(what string, is func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("it never was so that %s", what)
		}
	}
}

// fakeLog counts what it took, by the event's id; err refuses.
type fakeLog struct {
	ingest.Log
	mu    sync.Mutex
	err   error
	wrote map[string]int
}

func (l *fakeLog) Append(_ context.Context, _ time.Time, _ string, e *schemas.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.wrote[e.ID]++
	}
	return l.err
}

func (l *fakeLog) AppendAll(_ context.Context, _ time.Time, _ string, events []*schemas.Event, quarantine string, rest []*ingest.Delivery) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		l.wrote[e.ID]++
	}
	l.wrote[quarantine] += len(rest)
	return nil
}

func (l *fakeLog) records(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wrote[id]
}

const (
	source = "/acme/orders"
	topic  = "events.acme.orders"
)

// fixture is a filter of one source.
type fixture struct {
	*redis
	log   *Log
	under *fakeLog
	lines *bytes.Buffer // read it after close
	mu    sync.Mutex
	id    [16]byte
}

// filter makes a log whose source has a redis-server's filter. A busy machine's answers come late, so they are waited for longer than by default.
func filter(r *redis, change func(*Use)) *fixture {
	r.t.Helper()
	f := &fixture{redis: r, under: &fakeLog{wrote: map[string]int{}}, lines: &bytes.Buffer{}, id: [16]byte{1}}
	f.log = New(f.under, func(_ context.Context, topics ...string) (map[string][16]byte, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return map[string][16]byte{topics[0]: f.id}, nil
	}, prometheus.NewRegistry())
	u := Use{Redis: Config{URL: schemas.NewSecret(r.url()), Within: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(f.lines, nil))}, Topic: topic, Window: time.Hour}
	if change != nil {
		change(&u)
	}
	if err := f.log.Put(map[string]Use{source: u}); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(f.log.Close)
	return f
}

func event(id, body string) *schemas.Event {
	return &schemas.Event{ID: id, Source: source, Hash: schemas.HashBody([]byte(body))}
}

// take is a delivery that is acknowledged, which it must be whatever becomes of the Redis.
func (f *fixture) take(e *schemas.Event) {
	f.t.Helper()
	if err := f.log.Append(f.t.Context(), time.Time{}, topic, e); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) answered(result string) float64 {
	return testutil.ToFloat64(f.log.answers.WithLabelValues("acme", "orders", result))
}

func (f *fixture) entered(result string) float64 {
	return testutil.ToFloat64(f.log.entered.WithLabelValues(result))
}

// works sends events until one is entered: the filter is connected, and knows the topic.
func (f *fixture) works() {
	f.t.Helper()
	n := f.entered("entered")
	f.until("events are entered", func() bool {
		f.take(event(fmt.Sprint("works", time.Now().UnixNano()), ""))
		return f.entered("entered") > n
	})
}

// remembered sends an event and waits until the Redis has it.
func (f *fixture) remembered(e *schemas.Event) {
	f.t.Helper()
	f.take(e)
	key := keyOf(f.id, e)
	f.until("the event is entered", func() bool {
		n, err := f.do("EXISTS", key).AsInt64()
		return err == nil && n == 1
	})
}

func TestRepeatHasNoRecord(t *testing.T) {
	t.Parallel()
	f := filter(serve(t), nil)
	f.works()
	f.remembered(event("a", "1"))
	for range 3 {
		f.take(event("a", "1"))
	}
	if n := f.under.records("a"); n != 1 || f.answered("hit") != 3 {
		t.Errorf("%d records, %v hits", n, f.answered("hit"))
	}
	f.take(event("a", "2")) // a conflict is the ledger's to tell
	f.take(event("b", "1"))
	if f.under.records("a") != 2 || f.under.records("b") != 1 {
		t.Errorf("%d and %d records", f.under.records("a"), f.under.records("b"))
	}
	other := event("a", "1")
	other.Source = "/acme/other" // has no filter
	f.take(other)
	if f.under.records("a") != 3 {
		t.Error("a source without a filter was filtered")
	}
	// The topic was created again: what it had is gone, and so it is taken once more.
	f.mu.Lock()
	f.id = [16]byte{2}
	f.mu.Unlock()
	u := (*f.log.uses.Load())[source]
	u.id.ask(f.log.ids, topic)
	f.take(event("a", "1"))
	if f.under.records("a") != 4 {
		t.Error("a topic that was created again is answered for")
	}
	if ttl, err := f.do("PTTL", keyOf([16]byte{1}, event("a", "1"))).AsInt64(); err != nil || ttl <= 0 || ttl > time.Hour.Milliseconds() {
		t.Errorf("the key lives for %d ms, %v", ttl, err)
	}
}

// TestKnownElementsHaveNoRecord: of a list that comes again with one event more, that one alone reaches the log; what cannot become an event does, too.
func TestKnownElementsHaveNoRecord(t *testing.T) {
	t.Parallel()
	f := filter(serve(t), nil)
	f.works()
	list := []*schemas.Event{event("a", "1"), event("b", "1"), event("c", "1")}
	all := func(events []*schemas.Event, rest ...*ingest.Delivery) {
		t.Helper()
		if err := f.log.AppendAll(t.Context(), time.Now().Add(time.Minute), topic, events, "aside", rest); err != nil {
			t.Fatal(err)
		}
	}
	all(list[:2])
	for _, e := range list[:2] {
		f.until("the event is entered", func() bool {
			n, err := f.do("EXISTS", keyOf(f.id, e)).AsInt64()
			return err == nil && n == 1
		})
	}
	all(list)
	all(list[:2], &ingest.Delivery{})
	all(list[:2])
	if a, b, c := f.under.records("a"), f.under.records("b"), f.under.records("c"); a != 1 || b != 1 || c != 1 || f.answered("hit") != 6 {
		t.Errorf("%d, %d and %d records, %v hits", a, b, c, f.answered("hit"))
	}
	if n := f.under.records("aside"); n != 1 {
		t.Errorf("%d unusable elements are in the log", n)
	}
}

func TestWindowEnds(t *testing.T) {
	t.Parallel()
	f := filter(serve(t), func(u *Use) { u.Window = 300 * time.Millisecond })
	f.works()
	f.take(event("a", "1"))
	f.until("the window is over", func() bool {
		f.take(event("a", "1"))
		return f.under.records("a") == 2
	})
}

// What the broker has not acknowledged is not entered: its repeat is written.
func TestNothingIsEnteredBeforeTheAck(t *testing.T) {
	t.Parallel()
	f := filter(serve(t), nil)
	f.works()
	f.under.err = errors.New("no ack in time")
	if err := f.log.Append(t.Context(), time.Time{}, topic, event("a", "1")); !errors.Is(err, f.under.err) {
		t.Fatalf("%v", err)
	}
	f.under.err = nil
	f.remembered(event("b", "1")) // keys are entered in order
	f.take(event("a", "1"))
	if f.under.records("a") != 1 {
		t.Error("what was not acknowledged is known")
	}
}

func TestFlushedRedisCostsARecord(t *testing.T) {
	t.Parallel()
	f := filter(serve(t), nil)
	f.works()
	for want := range 3 {
		f.remembered(event("a", "1"))
		f.take(event("a", "1"))
		if n := f.under.records("a"); n != want+1 {
			t.Errorf("%d records after %d flushes", n, want)
		}
		if err := f.do("FLUSHALL").Error(); err != nil {
			t.Fatal(err)
		}
	}
}

// A Redis that is killed, is not there at the start or says no lets everything through, and is used again once it answers.
func TestGoneRedisLetsAllThrough(t *testing.T) {
	t.Parallel()
	f := filter(serve(t), nil)
	f.works()
	f.remembered(event("a", "1"))
	f.kill()
	began := time.Now()
	for n := range 200 {
		f.take(event("a", "1"))
		if f.under.records("a") != n+2 {
			t.Fatalf("%d records after %d repeats", f.under.records("a"), n+1)
		}
	}
	if failed := f.answered("error"); failed == 0 || failed > 40 || time.Since(began) > 30*time.Second {
		t.Errorf("%v of 200 deliveries have waited for it, in %s", failed, time.Since(began))
	}
	f.start()
	f.works()
	f.remembered(event("c", "1"))
	f.take(event("c", "1"))
	if f.under.records("c") != 1 {
		t.Error("the Redis is back, and is not asked")
	}
	f.log.Close()
	if text := f.lines.String(); strings.Count(text, "does not answer") != 1 || !strings.Contains(text, "answers again") {
		t.Errorf("the log is %s", text)
	}
}

// A Redis that stands still costs a few deliveries the time to wait for it, and none an error.
func TestFrozenRedisHoldsUpNobody(t *testing.T) {
	t.Parallel()
	f := filter(serve(t), func(u *Use) { u.Redis.Within = 100 * time.Millisecond })
	f.works()
	f.signal(syscall.SIGSTOP)
	began := time.Now()
	var all sync.WaitGroup
	for n := range 500 {
		all.Go(func() { f.take(event(fmt.Sprint(n), "1")) })
	}
	all.Wait()
	for n := range 500 {
		f.take(event(fmt.Sprint(n), "1"))
	}
	if took := time.Since(began); took > 10*time.Second { // 500 one after the other at 100 ms would be 50
		t.Errorf("1000 deliveries took %s", took)
	}
	if f.answered("hit") != 0 || f.answered("error") == 0 || f.under.records("7") != 2 {
		t.Errorf("%v hits, %v errors, %d records", f.answered("hit"), f.answered("error"), f.under.records("7"))
	}
	f.signal(syscall.SIGCONT)
	f.works()
}

func TestRedisThatComesLater(t *testing.T) {
	t.Parallel()
	r := serve(t)
	r.kill()
	_ = os.Remove(filepath.Join(r.dir, "s"))
	f := filter(r, nil)
	f.take(event("a", "1"))
	f.take(event("a", "1"))
	if f.under.records("a") != 2 || f.answered("unasked") != 2 {
		t.Errorf("%d records, %v not asked", f.under.records("a"), f.answered("unasked"))
	}
	r.start()
	f.works()
}

// A Redis without room keeps what it has, and takes no more: that is lost for it, and nowhere else.
func TestFullRedis(t *testing.T) {
	t.Parallel()
	f := filter(serve(t), nil)
	f.works()
	f.remembered(event("a", "1"))
	if err := f.do("CONFIG", "SET", "maxmemory", "1").Error(); err != nil {
		t.Fatal(err)
	}
	lost := f.entered("lost") // before it was connected
	f.take(event("b", "1"))
	f.until("it is lost", func() bool { return f.entered("lost") == lost+1 })
	f.take(event("a", "1"))
	f.take(event("b", "1"))
	if f.under.records("a") != 1 || f.under.records("b") != 2 || f.answered("error") != 0 {
		t.Errorf("%d and %d records, %v errors", f.under.records("a"), f.under.records("b"), f.answered("error"))
	}
}

// After a failover the old Redis may stay, as a replica that answers questions and takes no keys, on the connection that is open: another one leads to the new one.
func TestRedisThatBecomesAReplica(t *testing.T) {
	t.Parallel()
	r := serve(t)
	f := filter(r, nil)
	f.works()
	if err := r.do("REPLICAOF", "127.0.0.1", "1").Error(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(r.dir, "s"), filepath.Join(r.dir, "old")); err != nil {
		t.Fatal(err)
	}
	primary := redis{t: t, dir: r.dir, args: r.args}
	t.Cleanup(primary.kill)
	primary.start()
	f.works()
	f.remembered(event("a", "1"))
	f.take(event("a", "1"))
	if f.under.records("a") != 1 {
		t.Error("what the new one knows is not asked for")
	}
}

// A password that is wrong, or a topic without an id, filters nothing, and the password is in no line.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	const right, wrong = "right-pw-1", "wrong-pw-2"
	r := serve(t, "--requirepass", right)
	socket := filepath.Join(r.dir, "s")
	refused := filter(r, func(u *Use) { u.Redis.URL = schemas.NewSecret("unix://:" + wrong + "@" + socket) })
	refused.take(event("a", "1"))
	refused.take(event("a", "1"))
	taken := filter(r, func(u *Use) { u.Redis.URL = schemas.NewSecret("unix://:" + right + "@" + socket) })
	taken.works()
	unknown := filter(r, func(u *Use) { u.Redis.URL, u.Topic = schemas.NewSecret("unix://:"+right+"@"+socket), "events.acme.old" })
	unknown.take(event("a", "1"))
	unknown.take(event("a", "1"))
	for _, f := range []*fixture{refused, unknown} {
		f.log.Close()
		if f.under.records("a") != 2 || strings.Contains(f.lines.String(), "-pw-") {
			t.Errorf("%d records, and the log is %s", f.under.records("a"), f.lines)
		}
	}
	if !strings.Contains(refused.lines.String(), "WRONGPASS") {
		t.Errorf("the log does not say why: %s", refused.lines)
	}
}

// Put keeps the connections of what stays, closes the others, and takes none of the sources that are gone.
func TestPut(t *testing.T) {
	t.Parallel()
	f := filter(serve(t), nil)
	f.works()
	f.remembered(event("a", "1"))
	before := (*f.log.uses.Load())[source]
	if err := f.log.Put(map[string]Use{source: before.Use, "/acme/more": before.Use}); err != nil {
		t.Fatal(err)
	}
	after := *f.log.uses.Load()
	if after[source].filter != before.filter || after["/acme/more"].filter != before.filter || after[source].id != before.id {
		t.Error("what stays was opened again")
	}
	bad := before.Use
	bad.Redis.URL = schemas.NewSecret("redis://:pass-word@host:6379/zero")
	if err := f.log.Put(map[string]Use{source: bad}); err == nil || strings.Contains(err.Error(), "pass-word") {
		t.Errorf("%v", err)
	}
	f.take(event("a", "1"))
	if f.under.records("a") != 1 {
		t.Error("a change that cannot be made has ended what was there")
	}
	if err := f.log.Put(nil); err != nil {
		t.Fatal(err)
	}
	f.take(event("a", "1"))
	if f.under.records("a") != 2 || len(f.log.open) != 0 || before.filter.ctx.Err() == nil {
		t.Error("what is gone is still there")
	}
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	var b breaker
	for n := range mostFailures {
		if _, ok := b.allows(now); !ok {
			t.Fatalf("closed after %d failures", n)
		}
		if opened := b.fails(now, false); opened != (n == mostFailures-1) {
			t.Fatalf("failure %d opens it: %t", n+1, opened)
		}
	}
	b.fails(now, false) // one that was under way
	for _, seconds := range []int{1, 2, 4, 8, 16, 30, 30} {
		pause := time.Duration(seconds) * time.Second
		if _, ok := b.allows(now.Add(pause - 1)); ok || !b.open(now.Add(pause-1)) {
			t.Fatalf("somebody asks before %s are over", pause)
		}
		now = now.Add(pause)
		if trial, ok := b.allows(now); !ok || !trial {
			t.Fatalf("nobody tries after %s", pause)
		}
		if _, ok := b.allows(now); ok {
			t.Fatal("two try")
		}
		if b.fails(now, true) {
			t.Fatal("it was open already")
		}
	}
	if !b.works() || b.works() {
		t.Error("an answer does not close it, once")
	}
	if _, ok := b.allows(now); !ok {
		t.Error("it stays open")
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{"redis://h": true, "rediss://u:p@h:6380/3": true, "unix:///run/redis.sock": true, "http://h": false, "h:6379": false, "redis://:pass word@h": false, "redis://h/x": false} {
		if err := Check(schemas.NewSecret(url)); (err == nil) != ok || err != nil && strings.Contains(err.Error(), "pass word") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// BenchmarkRepeat is what a repeat costs that the Redis knows, of many deliveries at once.
func BenchmarkRepeat(b *testing.B) {
	f := filter(serve(b), nil)
	f.works()
	e := event("a", "1")
	f.remembered(e)
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			f.take(e)
		}
	})
	if n := f.under.records("a"); n > 1+b.N/100 {
		b.Errorf("%d of %d were written", n, b.N)
	}
}
