package spool

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
)

// broker is a log that can be away. It keeps what it was given then, as the producer's client does, until it is back or gives all of it up.
type broker struct {
	mu       sync.Mutex
	changed  chan struct{}
	away     bool
	buffer   []*kgo.Record
	log      []*kgo.Record
	given    int   // records that were ever given to it
	tooLarge int   // quarantined bodies of more bytes are; 0: none
	largest  int   // record of an event that its topic takes; 0: any
	says     error // of a larger one; nil: what brokers say
}

func (b *broker) set(away, giveUp bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
	if giveUp {
		b.buffer = nil
	}
	if !away {
		b.log, b.buffer = append(b.log, b.buffer...), nil
	}
	if b.changed != nil {
		close(b.changed)
	}
	b.changed = nil
}

func (b *broker) ProduceAll(ctx context.Context, by time.Time, records []*kgo.Record) (int, error) {
	b.mu.Lock()
	if i := slices.IndexFunc(records, func(r *kgo.Record) bool { return b.largest > 0 && len(r.Key) > 0 && len(r.Value) > b.largest }); i >= 0 {
		b.mu.Unlock()
		if i > 0 {
			if n, err := b.ProduceAll(ctx, by, records[:i]); err != nil {
				return n, err
			}
		}
		return i, schemas.Errorf(schemas.TooLarge, "", "%w", cmp.Or(b.says, error(kerr.MessageTooLarge)))
	}
	for _, r := range records {
		b.given++
		b.buffer = append(b.buffer, &kgo.Record{Topic: r.Topic, Key: r.Key, Headers: r.Headers, Value: bytes.Clone(r.Value)})
	}
	mine := b.buffer[len(b.buffer)-1]
	for {
		if !b.away {
			b.log, b.buffer = append(b.log, b.buffer...), nil
		}
		if slices.Contains(b.log, mine) {
			b.mu.Unlock()
			return len(records), nil
		}
		if !slices.Contains(b.buffer, mine) {
			b.mu.Unlock()
			return 0, schemas.Errorf(schemas.Unavailable, "", "given up")
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		wait := time.Hour
		if !by.IsZero() {
			wait = time.Until(by)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, schemas.Errorf(schemas.Unavailable, "", "%w", ctx.Err())
		case <-time.After(wait):
			return 0, schemas.Errorf(schemas.Unavailable, "", "no answer in time")
		}
		b.mu.Lock()
	}
}

func (b *broker) Record(topic string, e *schemas.Event) *kgo.Record {
	return &kgo.Record{Topic: topic, Key: []byte(e.Entity), Value: e.Data, Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(e.ID)}}}
}

func (b *broker) QuarantineRecord(topic string, d *ingest.Delivery) *kgo.Record {
	return &kgo.Record{Topic: topic, Value: d.Body, Headers: []kgo.RecordHeader{{Key: "reason", Value: []byte(d.Reason)}}}
}

func (b *broker) AppendAll(ctx context.Context, by time.Time, topic string, events []*schemas.Event, quarantine string, rest []*ingest.Delivery) error {
	var records []*kgo.Record
	for _, e := range events {
		records = append(records, b.Record(topic, e))
	}
	for _, d := range rest {
		records = append(records, b.QuarantineRecord(quarantine, d))
	}
	_, err := b.ProduceAll(ctx, by, records)
	return err
}

func (b *broker) Append(ctx context.Context, by time.Time, topic string, e *schemas.Event) error {
	_, err := b.ProduceAll(ctx, by, []*kgo.Record{b.Record(topic, e)})
	return err
}

func (b *broker) Quarantine(ctx context.Context, by time.Time, topic string, d *ingest.Delivery) error {
	if b.tooLarge > 0 && len(d.Body) > b.tooLarge { // be it for the topic or for the producer
		return schemas.Errorf(schemas.TooLarge, "", "not sent")
	}
	_, err := b.ProduceAll(ctx, by, []*kgo.Record{b.QuarantineRecord(topic, d)})
	return err
}

// ids returns the bodies of an entity in the log, each where it stands first; all of them for quarantine.
func (b *broker) ids(entity string) (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.log {
		if string(r.Key) == entity && !slices.Contains(list, string(r.Value)) {
			list = append(list, string(r.Value))
		}
	}
	return list
}

// kept returns what is in the log, and how much was ever given to it.
func (b *broker) kept() ([]*kgo.Record, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.log), b.given
}

type setup struct {
	t       testing.TB
	b       *broker
	s       *Spool
	dir     string
	spools  bool
	topic   string // of the source
	unknown bool   // topic is not known
	most    int64
	reads   func(f io.ReaderAt, at, size int64) ([]byte, error) // at Open
	stop    func()
}

func newSetup(t testing.TB) *setup {
	u := &setup{t: t, b: &broker{}, dir: t.TempDir(), spools: true, topic: "events.acme.orders"}
	u.open()
	return u
}

// open opens the directory as the next process does.
func (u *setup) open() {
	u.t.Helper()
	s, err := New(Config{Dir: u.dir, MaxSize: u.most, Log: u.b, Producer: u.b, Spools: func(string, string) bool { return u.spools },
		Topic:           func(string, string) (string, bool) { return u.topic, !u.unknown },
		QuarantineTopic: func(team, source string) string { return "quarantine." + team + "." + source }})
	if err == nil {
		if u.reads != nil {
			s.reads = u.reads
		}
		err = s.Open()
	}
	if err != nil {
		u.t.Fatal(err)
	}
	u.s = s
}

func (u *setup) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); u.s.Run(ctx) }()
	for !u.s.started.Load() {
		time.Sleep(time.Millisecond) // virtual
	}
	u.stop = func() { cancel(); <-ended; u.s.Close() }
}

// kill leaves the files as a killed process does.
func (u *setup) kill() {
	if u.stop != nil {
		u.stop()
	}
	u.s.lock.Close()
	u.stop = nil
}

func (u *setup) send(entity, id string) error {
	e := &schemas.Event{ID: id, Source: "/acme/orders", Entity: schemas.EntityKey(entity), Data: []byte(id)}
	return u.s.Append(context.Background(), time.Now().Add(9*time.Second), cmp.Or(u.topic, "events.acme.orders"), e)
}

func (u *setup) spooled(entity, id string) {
	u.t.Helper()
	if err := u.send(entity, id); !errors.Is(err, ingest.ErrSpooled) {
		u.t.Fatalf("%s: %v, want that it is on disk", id, err)
	}
}

func (u *setup) files() []string {
	files, err := filepath.Glob(filepath.Join(u.dir, "*", "*.spool"))
	if err != nil {
		u.t.Fatal(err)
	}
	return files
}

func (u *setup) want(entity string, ids ...string) {
	u.t.Helper()
	if got := u.b.ids(entity); !slices.Equal(got, ids) {
		u.t.Errorf("%s: the log has %q, want %q", entity, got, ids)
	}
}

func TestSpool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		u.run()
		if err := u.send("a", "a1"); err != nil || u.s.Stats() != nil {
			t.Fatalf("while the broker answers: %v, %v", err, u.s.Stats())
		}
		u.b.set(true, false)
		began := time.Now()
		u.spooled("a", "a2")
		if took := time.Since(began); took != 8*time.Second {
			t.Errorf("the first one took %v", took)
		}
		began = time.Now()
		for i := range 200 {
			u.spooled("a", fmt.Sprintf("a%d", i+3))
			u.spooled("b", fmt.Sprintf("b%d", i))
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("those after it took %v", took)
		}
		if st := u.s.Stats(); len(st) != 1 || st[0].Records != 401 || st[0].Source != "orders" || st[0].Oldest.IsZero() || st[0].Full {
			t.Errorf("%+v", st)
		}
		time.Sleep(time.Hour) // virtual
		if _, given := u.b.kept(); given > 2+2*3600 {
			t.Errorf("the broker that is away was given %d records", given)
		}
		u.b.set(false, true)
		time.Sleep(5 * time.Second)
		for i, id := range u.b.ids("b") {
			if id != fmt.Sprintf("b%d", i) {
				t.Fatalf("%s at %d", id, i)
			}
		}
		if a, b := u.b.ids("a"), u.b.ids("b"); len(a) != 202 || len(b) != 200 || a[0] != "a1" || a[201] != "a202" {
			t.Errorf("the log has %d of a and %d of b", len(a), len(b))
		}
		if err := u.send("a", "last"); err != nil {
			t.Errorf("when all of it is there: %v", err)
		}
		if st := u.s.Stats(); st != nil || len(u.files()) > 0 || u.s.size.Load() != 0 {
			t.Errorf("%+v, %v, %d bytes are left", st, u.files(), u.s.size.Load())
		}
		u.stop()
		if err := u.send("a", "late"); schemas.KindOf(err) != schemas.Unavailable {
			t.Errorf("after the end: %v", err)
		}
	})
}

// What waits for the log when an older delivery of its entity goes to the disk goes there behind it, whatever comes of it at the log: not
// even if that drops all it was given may the newer ones be first.
func TestNothingOvertakes(t *testing.T) {
	t.Parallel()
	for _, giveUp := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			u := newSetup(t)
			u.run()
			u.b.set(true, false)
			var all sync.WaitGroup
			for i, id := range []string{"1", "2", "3"} { // the third comes when the first has gone to the disk
				all.Go(func() { u.spooled("a", id) })
				all.Go(func() { u.spooled("other"+id, id) })
				time.Sleep(time.Duration(1+4*i) * time.Second)
			}
			time.Sleep(4 * time.Second)
			u.spooled("a", "4")
			u.b.set(true, giveUp)
			time.Sleep(time.Second)
			u.b.set(false, false)
			all.Wait()
			time.Sleep(3 * time.Second)
			u.want("a", "1", "2", "3", "4")
			u.want("other2", "2")
			u.stop()
		})
	}
}

// Senders who wait for each answer find their deliveries in order, whatever the broker does, and each of those that were acknowledged.
func TestOrderUnderFlapping(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			u := newSetup(t)
			u.run()
			random := rand.New(rand.NewPCG(seed, 0))
			accepted := make([][]string, 8)
			var all sync.WaitGroup
			for i := range accepted {
				pause := rand.New(rand.NewPCG(seed, uint64(i+1)))
				all.Go(func() {
					for n := range 60 {
						id := fmt.Sprint(n)
						if err := u.send(fmt.Sprint(i), id); err == nil || errors.Is(err, ingest.ErrSpooled) {
							accepted[i] = append(accepted[i], id)
						}
						time.Sleep(time.Duration(pause.Int64N(int64(3 * time.Second))))
					}
				})
			}
			for range 20 {
				u.b.set(random.IntN(2) == 0, random.IntN(2) == 0)
				time.Sleep(time.Duration(random.Int64N(int64(15 * time.Second))))
			}
			u.b.set(false, true)
			all.Wait()
			time.Sleep(10 * time.Second)
			for i, want := range accepted {
				got := u.b.ids(fmt.Sprint(i))
				if len(want) != 60 || !slices.Equal(got, want) {
					t.Errorf("seed %d: of %d that were accepted the log has %q", seed, len(want), got)
				}
			}
			if st := u.s.Stats(); st != nil {
				t.Errorf("left: %+v", st)
			}
			u.stop()
		})
	}
}

// What a killed process has acknowledged is there for the next one, before what is newer.
func TestNextProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		u.spooled("a", "1") // before Run all goes to the disk
		u.b.set(true, false)
		u.run()
		u.spooled("a", "2")
		u.kill()
		u.open()
		u.spooled("a", "3")
		u.run()
		u.spooled("a", "4")
		u.b.set(false, true)
		time.Sleep(5 * time.Second)
		u.want("a", "1", "2", "3", "4")
		if len(u.files()) > 0 {
			t.Errorf("%v are left", u.files())
		}
		u.stop()
	})
}

// Whoever reads a source after a rekey reads its new topic alone: what is on disk goes there, before what is newer. Quarantine has no other
// topic then, and nobody knows a better one than before for what is of a source that is gone.
func TestTopicOfTheNextProcess(t *testing.T) {
	t.Parallel()
	for now, want := range map[string]string{"events.acme.orders.24": "events.acme.orders.24", "": "events.acme.orders"} {
		t.Run("topic "+now, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := newSetup(t)
				u.spooled("a", "1")
				u.spooled("a", "2")
				d := &ingest.Delivery{Team: "acme", Source: "orders", Kind: ingest.KindUnusable, Body: []byte("q")}
				if err := u.s.Quarantine(t.Context(), time.Now().Add(9*time.Second), "quarantine.acme.orders", d); !errors.Is(err, ingest.ErrSpooled) {
					t.Fatal(err)
				}
				u.kill()
				u.topic = now
				u.b.set(true, false)
				u.open()
				if _, known := u.s.Largest()[want]; !known {
					t.Errorf("the largest body by topic: %v, want one for %s", u.s.Largest(), want)
				}
				u.run()
				u.spooled("a", "3")
				u.b.set(false, true)
				time.Sleep(5 * time.Second)
				u.want("a", "1", "2", "3")
				u.want("", "q")
				kept, _ := u.b.kept()
				for _, r := range kept {
					if len(r.Key) > 0 && r.Topic != want || len(r.Key) == 0 && r.Topic != "quarantine.acme.orders" {
						t.Errorf("%s went to %s", r.Value, r.Topic)
					}
				}
				u.stop()
			})
		})
	}
}

// What nobody knows the topic of waits until somebody does, and nothing is lost where its source turns out to be gone.
func TestTopicIsNotKnownYet(t *testing.T) {
	t.Parallel()
	for now, want := range map[string]string{"events.acme.orders.24": "events.acme.orders.24", "": "events.acme.orders"} {
		t.Run("topic "+now, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := newSetup(t)
				u.spooled("a", "1")
				u.spooled("a", "2")
				u.kill()
				u.topic, u.unknown = "", true
				u.open()
				u.run()
				time.Sleep(time.Minute) // virtual
				if _, given := u.b.kept(); given > 0 {
					t.Errorf("the log was given %d records", given)
				}
				if st := u.s.Stats(); len(st) != 1 || st[0].Records != 2 || st[0].Err == nil {
					t.Errorf("%+v", st)
				}
				if err := u.send("a", "early"); schemas.KindOf(err) != schemas.Unavailable || errors.Is(err, ingest.ErrSpooled) {
					t.Errorf("one that would overtake: %v", err)
				}
				u.topic, u.unknown = now, false
				u.s.Known()
				ids := []string{"1", "2"}
				if now != "" { // else nothing comes of it
					ids = append(ids, "3")
					if err := u.send("a", "3"); err != nil && !errors.Is(err, ingest.ErrSpooled) {
						t.Error(err)
					}
				}
				time.Sleep(5 * time.Second)
				u.want("a", ids...)
				kept, _ := u.b.kept()
				for _, r := range kept {
					if r.Topic != want {
						t.Errorf("%s went to %s", r.Value, r.Topic)
					}
				}
				if st := u.s.Stats(); st != nil || len(u.files()) > 0 {
					t.Errorf("%+v, %v are left", st, u.files())
				}
				u.stop()
			})
		})
	}
}

func TestOneProcess(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	s, err := New(u.s.c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a second process: %v", err)
	}
}

// A source that keeps nothing on disk gets the log's word, but nothing of it overtakes what is there from before.
func TestRefuse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		u.run()
		u.b.set(true, false)
		u.spooled("a", "1")
		u.spools = false
		for _, entity := range []string{"a", "b"} {
			if err := u.send(entity, "2"); schemas.KindOf(err) != schemas.Unavailable {
				t.Errorf("%s: %v", entity, err)
			}
		}
		u.b.set(false, true)
		time.Sleep(3 * time.Second)
		if err := u.send("a", "3"); err != nil {
			t.Error(err)
		}
		u.want("a", "1", "3")
		u.stop()
	})
}

// Beyond its size, and while the disk takes nothing, deliveries are refused; afterwards they are taken again.
func TestFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		u.s.c.MaxSize = 500
		u.run()
		u.b.set(true, false)
		n := 0
		for ; ; n++ {
			err := u.send("a", fmt.Sprint(n))
			if schemas.KindOf(err) == schemas.Throttled && n > 2 {
				break
			} else if !errors.Is(err, ingest.ErrSpooled) {
				t.Fatalf("%d: %v", n, err)
			}
		}
		if st := u.s.Stats(); !st[0].Full {
			t.Errorf("%+v", st)
		}
		u.b.set(false, true)
		time.Sleep(3 * time.Second)
		if err := u.send("a", "x"); err != nil || u.s.Stats() != nil {
			t.Error(err, u.s.Stats())
		}
		u.b.set(true, false)
		for err := ingest.ErrSpooled; errors.Is(err, ingest.ErrSpooled); {
			err = u.send("c", "y")
		}
		q, _ := u.s.queue("acme", "orders")
		q.full = q.full.Add(-time.Hour) // as if the clock had been set back since there was room last
		if st := u.s.Stats(); !st[0].Full {
			t.Errorf("full once more: %+v", st)
		}
		u.b.set(false, true)
		time.Sleep(3 * time.Second)
		if got := u.b.ids("a"); len(got) != n+1 {
			t.Errorf("%d were accepted, the log has %q", n+1, got)
		}

		u.b.set(true, false)
		fails := errors.New("no space left on device")
		u.s.syncs = func(s *segment, list []*entry) error {
			_, _ = s.file.WriteAt([]byte("half a record"), s.size)
			return fails
		}
		if err := u.send("b", "1"); schemas.KindOf(err) != schemas.Unavailable || !errors.Is(err, fails) {
			t.Errorf("a full disk: %v", err)
		}
		if st := u.s.Stats(); len(st) != 1 || !st[0].Full || u.s.size.Load() != 0 || len(u.files()) > 0 {
			t.Errorf("%+v, %d bytes, %v", st, u.s.size.Load(), u.files())
		}
		u.s.syncs = (*segment).append
		u.spooled("b", "2")
		u.b.set(false, true)
		time.Sleep(3 * time.Second)
		u.want("b", "2")
		u.stop()
	})
}

// damage changes a segment of five records that a killed process has left, and returns what the log gets of it.
func damage(t *testing.T, change func(data []byte, pieces []piece) []byte) (u *setup, whole []byte) {
	u = newSetup(t)
	for i := range 5 {
		u.spooled("a", fmt.Sprintf("record %d", i))
	}
	u.kill()
	path := u.files()[0]
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pieces, torn, ok := scan(whole)
	if len(pieces) != 5 || torn != 0 || !ok {
		t.Fatal(pieces, torn, ok)
	}
	if err := os.WriteFile(path, change(bytes.Clone(whole), pieces), 0o600); err != nil {
		t.Fatal(err)
	}
	u.open()
	u.run()
	time.Sleep(3 * time.Second)
	u.stop()
	return u, whole
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	all := []string{"record 0", "record 1", "record 2", "record 3", "record 4"}
	without2 := []string{"record 0", "record 1", "record 3", "record 4"}
	for name, tt := range map[string]struct {
		change      func(data []byte, p []piece) []byte
		want        []string
		quarantined int
	}{
		"not at all":          {func(d []byte, _ []piece) []byte { return d }, all, 0},
		"a flipped byte":      {func(d []byte, p []piece) []byte { d[p[2].at+recordHead+9] ^= 1; return d }, without2, 1},
		"a flipped length":    {func(d []byte, p []piece) []byte { d[p[2].at+markerSize] ^= 1; return d }, without2, 1},
		"a flipped marker":    {func(d []byte, p []piece) []byte { d[p[2].at] ^= 1; return d }, without2, 1},
		"the last length":     {func(d []byte, p []piece) []byte { d[p[4].at+markerSize+1] ^= 1; return d }, all[:4], 1},
		"the first head":      {func(d []byte, _ []piece) []byte { d[len(magic)] ^= 1; return d }, all, 0},
		"both heads":          {func(d []byte, _ []piece) []byte { d[0] ^= 1; d[headHalf] ^= 1; return d }, all, 0},
		"a torn tail":         {func(d []byte, p []piece) []byte { return d[:p[4].at+recordHead+3] }, all[:4], 0},
		"a torn head":         {func(d []byte, p []piece) []byte { return d[:p[4].at+5] }, all[:4], 0},
		"zeros at the end":    {func(d []byte, p []piece) []byte { clear(d[p[4].at:]); return append(d, make([]byte, 999)...) }, all[:4], 0},
		"nothing but a head":  {func(d []byte, _ []piece) []byte { return d[:headSize] }, nil, 0},
		"an empty file":       {func([]byte, []piece) []byte { return nil }, nil, 0},
		"two that are beside": {func(d []byte, p []piece) []byte { d[p[1].at] ^= 1; d[p[2].at] ^= 1; return d }, []string{"record 0", "record 3", "record 4"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u, _ := damage(t, tt.change)
				u.want("a", tt.want...)
				if got := u.b.ids(""); len(got) != tt.quarantined {
					t.Errorf("quarantined: %q", got)
				}
				for _, body := range u.b.ids("") {
					if !strings.Contains(body, "vents.acme.orders") {
						t.Errorf("quarantine has %q, and not the bytes of the record", body)
					}
				}
				if len(u.files()) > 0 {
					t.Errorf("%v are left", u.files())
				}
			})
		})
	}
}

// What is no segment is left as it is, and holds up nothing.
func TestForeignFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		u.spooled("a", "1")
		u.kill()
		foreign := filepath.Join(u.dir, "acme.orders", "000000000000.spool")
		if err := os.WriteFile(foreign, bytes.Repeat([]byte("not ours "), 20), 0o600); err != nil {
			t.Fatal(err)
		}
		u.open()
		u.run()
		time.Sleep(time.Second)
		u.want("a", "1")
		if got := u.files(); !slices.Equal(got, []string{foreign}) {
			t.Errorf("%v are left", got)
		}
		u.stop()
	})
}

// A byte that flips while the process runs is found when the record is read. What is too large for the quarantine goes there in parts.
func TestFlippedWhileRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		for i := range 4 {
			u.spooled("a", fmt.Sprint(i))
		}
		f, err := os.OpenFile(u.files()[0], os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		second := int64(headSize) + recordHead*2 + 50 // somewhere in it
		if _, err := f.WriteAt([]byte{0xff}, second); err != nil {
			t.Fatal(err)
		}
		f.Close()
		u.b.tooLarge = 40
		u.run()
		time.Sleep(3 * time.Second)
		if a, parts := u.b.ids("a"), u.b.ids(""); len(a) != 3 || len(parts) < 2 {
			t.Errorf("the log has %q, the quarantine %q", a, parts)
		}
		u.stop()
	})
}

// A file that has become shorter while the process runs: what is whole goes to the log, what is not to quarantine, and nothing of that says that the
// brokers are away.
func TestShortenedWhileRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		u.spooled("b", "whole")
		u.spooled("a", "in part")
		u.spooled("a", "gone")
		path := u.files()[0]
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pieces, _, _ := scan(data)
		if err := os.Truncate(path, pieces[1].at+pieces[1].size-1); err != nil {
			t.Fatal(err)
		}
		u.run()
		time.Sleep(3 * time.Second)
		u.want("b", "whole")
		u.want("a")
		if err := u.send("c", "beside it"); err != nil {
			t.Errorf("another delivery: %v", err)
		}
		if got := u.b.ids(""); len(got) > 0 {
			t.Errorf("given up at once: %q", got)
		}
		time.Sleep(unreadTries * drainPause)
		if got := u.b.ids(""); len(got) != 2 || !strings.Contains(got[0], "in par\xff") {
			t.Errorf("the quarantine has %q", got)
		}
		if err := u.send("a", "behind it"); err != nil {
			t.Errorf("a later one: %v", err)
		}
		if len(u.files()) > 0 || u.s.Stats() != nil {
			t.Errorf("%v are left, %+v", u.files(), u.s.Stats())
		}
		u.stop()
	})
}

// What a disk did not give is in quarantine without its bytes; the file is kept, and gives them to a later process.
func TestGivenUpUnread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		for i := range 3 {
			u.spooled("a", fmt.Sprint(i))
		}
		s := u.s.all()[0].active
		away, err := os.OpenFile(s.path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.file.Close()
		s.file = away
		u.run()
		time.Sleep(unreadTries*drainPause + time.Second)
		if got := u.b.ids(""); len(got) != 1 || len(u.files()) > 0 || u.s.Stats() != nil { // their bytes, and so their ids, are the same
			t.Errorf("quarantined: %q; %v are left, %+v", got, u.files(), u.s.Stats())
		}
		u.kill()
		u.open()
		u.b.set(true, false)
		u.spooled("a", "3")
		if got := u.files(); len(got) != 1 || got[0] == s.path {
			t.Errorf("%v would take the place of what is kept", got)
		}
		u.kill()
		if err := os.Rename(s.path+unreadFile, s.path); err != nil {
			t.Fatal(err)
		}
		u.b.set(false, false)
		u.open()
		u.run()
		time.Sleep(time.Second)
		u.want("a", "0", "1", "2", "3")
		u.stop()
	})
}

// A disk that gave nothing for a while, and does again, is waited for as long as at first when it gives nothing the next time.
func TestReadAgainCountsAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		u.spooled("a", "1")
		q := u.s.all()[0]
		q.lanes[laneName(u.topic, "a")].unread = unreadTries - 1
		u.b.set(true, false)
		u.run()
		time.Sleep(3 * time.Second)
		q.mu.Lock()
		if got := q.lanes[laneName(u.topic, "a")].unread; got != 0 {
			t.Errorf("%d tries count against what was read since", got)
		}
		q.mu.Unlock()
		u.stop()
	})
}

// What a disk does not give at a start is read again for a while. What it gives later than that is no quarantine's either.
func TestUnreadableAtTheStart(t *testing.T) {
	t.Parallel()
	for name, failures := range map[string]int{"for a moment": 3, "until later": unreadTries + 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := newSetup(t)
				for i := range 3 {
					u.spooled("a", fmt.Sprint(i))
				}
				u.kill()
				tries := 0
				u.reads = func(f io.ReaderAt, at, size int64) ([]byte, error) {
					data, err := readable(f, at, size)
					if tries++; tries > failures {
						return data, err
					}
					data[size-1] ^= 0xff
					return data, syscall.EIO
				}
				u.topic = "events.acme.now"
				u.open()
				u.run()
				time.Sleep(3 * time.Second)
				// What nobody could read at the start is of no entity's lane: its place among the others is chance.
				if got := slices.Sorted(slices.Values(u.b.ids("a"))); !slices.Equal(got, []string{"0", "1", "2"}) {
					t.Errorf("the log has %q", got)
				}
				if got := u.b.ids(""); len(got) > 0 || len(u.files()) > 0 || tries != min(failures+1, unreadTries+1) {
					t.Errorf("quarantined: %q; %v are left; %d tries", got, u.files(), tries)
				}
				log, _ := u.b.kept()
				for _, r := range log {
					if r.Topic != u.topic {
						t.Errorf("a record went to %s", r.Topic)
					}
				}
				u.stop()
			})
		})
	}
}

// A file whose marker the disk does not give is left, told of, and read by a start that can.
func TestUnreadableMarker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		u.spooled("a", "1")
		u.kill()
		u.reads = func(_ io.ReaderAt, _, size int64) ([]byte, error) {
			return bytes.Repeat([]byte{0xff}, int(size)), syscall.EIO
		}
		u.open()
		u.run()
		if err := u.send("a", "2"); err != nil {
			t.Error(err)
		}
		if st := u.s.Stats(); len(st) != 1 || st[0].Unread != 1 || st[0].Records != 0 || len(u.files()) != 1 {
			t.Errorf("%+v, %v", st, u.files())
		}
		u.kill()
		u.reads = nil
		u.open()
		u.run()
		time.Sleep(time.Second)
		u.want("a", "2", "1")
		if st := u.s.Stats(); st != nil {
			t.Errorf("%+v", st)
		}
		u.stop()
	})
}

// A file that cannot be opened holds up nothing.
func TestFileThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		u.spooled("a", "1")
		u.kill()
		for _, name := range []string{"acme.orders", "acme.refunds"} {
			if err := os.MkdirAll(filepath.Join(u.dir, name, "000000000007.spool"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		u.open()
		u.run()
		time.Sleep(time.Second)
		u.want("a", "1")
		if got := u.files(); len(got) != 2 {
			t.Errorf("%v are left", got)
		}
		if st := u.s.Stats(); len(st) != 2 || st[0].Unread != 1 || st[1].Unread != 1 {
			t.Errorf("%+v", st)
		}
		u.stop()
	})
}

// failing is a file of which a disk does not give some bytes.
type failing struct {
	data     []byte
	from, to int64
}

func (f failing) ReadAt(p []byte, at int64) (int, error) {
	n := copy(p, f.data[at:])
	if at < f.to && at+int64(n) > f.from {
		return int(max(0, f.from-at)), syscall.EIO
	}
	return n, nil
}

// What a disk does not give is damaged, and nothing that was never acknowledged, wherever it is in the file; what it gives is there.
func TestUnreadableBlocks(t *testing.T) {
	t.Parallel()
	data, err := newHead()
	if err != nil {
		t.Fatal(err)
	}
	marker := bytes.Clone(data[len(magic):][:markerSize])
	for i := range 3 {
		payload := bytes.Repeat([]byte{byte('a' + i)}, 10_000)
		data = append(append(data, headOf(marker, payload)...), payload...)
	}
	size := int64(len(data))
	for name, tt := range map[string]struct {
		from, to int64
		want     string
	}{
		"a body":           {12_000, 12_001, "whole damaged whole"},
		"a head":           {10_050, 10_060, "damaged damaged whole"}, // its block is also the end of the one before
		"the last body":    {size - 1, size, "whole whole damaged"},
		"the last of them": {size - 10_100, size, "whole damaged damaged"},
	} {
		got, err := readable(failing{data, tt.from, tt.to}, 0, size)
		pieces, torn, ok := scan(got)
		var are []string
		for _, p := range pieces {
			are = append(are, map[bool]string{false: "whole", true: "damaged"}[p.damaged])
		}
		if !errors.Is(err, syscall.EIO) || !ok || torn != 0 || strings.Join(are, " ") != tt.want {
			t.Errorf("%s: %q, %d bytes torn, %t, %v", name, are, torn, ok, err)
		}
	}
}

// A record that its topic does not take any more, since its limit was lowered meanwhile, goes to quarantine with the event's bytes, and what is
// behind it in its entity goes on.
func TestTooLargeForItsTopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		large := strings.Repeat("x", 90)
		for _, id := range []string{"1", "2", large, "3", "4"} {
			u.spooled("a", id)
		}
		u.b.tooLarge, u.b.largest = 40, 60
		u.run()
		time.Sleep(10 * time.Second)
		u.want("a", "1", "2", "3", "4")
		u.b.mu.Lock()
		var body, reasons string
		for _, r := range u.b.log {
			if len(r.Key) == 0 {
				body, reasons = body+string(r.Value), string(r.Headers[0].Value)
			}
		}
		u.b.mu.Unlock()
		if !strings.HasSuffix(body, large) || reasons != "spool_too_large" || len(u.files()) > 0 {
			t.Errorf("the quarantine has %q for %s; %v are left", body, reasons, u.files())
		}
		u.stop()
	})
}

// What the producer itself does not send for its size stays on disk, whole, for the next process, which is told how large it is. Other entities go on.
func TestTooLargeForTheProducer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		large := strings.Repeat("x", 90)
		for _, id := range []string{"1", large, "2"} {
			u.spooled("a", id)
		}
		u.b.largest, u.b.says = 60, errors.New("not sent")
		u.run()
		u.spooled("b", "1")
		time.Sleep(10 * time.Second)
		u.want("a", "1")
		u.want("b", "1")
		if log, given := u.b.kept(); len(log) != 2 || given > 2 || u.s.Stats()[0].Records != 2 {
			t.Errorf("%d in the log, %d tries that it saw, %+v", len(log), given, u.s.Stats())
		}
		u.kill()
		u.b.largest = 0
		u.open()
		if got := u.s.Largest(); len(got) != 1 || got["events.acme.orders"] != 90 {
			t.Errorf("the largest is %v", got)
		}
		u.run()
		time.Sleep(3 * time.Second)
		u.want("a", "1", large, "2")
		if log, _ := u.b.kept(); slices.ContainsFunc(log, func(r *kgo.Record) bool { return len(r.Key) == 0 }) || len(u.files()) > 0 {
			t.Errorf("something is in quarantine, or %v are left", u.files())
		}
		u.stop()
	})
}

// A source that found no room, and to which nothing comes since, is full no more once there is room: its own is not the only one that makes some.
func TestFullNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		u.s.c.MaxSize = 500
		u.run()
		u.b.set(true, false)
		for id, err := 0, ingest.ErrSpooled; errors.Is(err, ingest.ErrSpooled); id++ {
			err = u.send("a", fmt.Sprint(id))
		}
		quiet := func() error {
			return u.s.Append(t.Context(), time.Now().Add(9*time.Second), "events.acme.quiet", &schemas.Event{ID: "1", Source: "/acme/quiet", Entity: "q", Data: []byte("1")})
		}
		full := func() (sources []string) {
			for _, of := range u.s.Stats() {
				if of.Full {
					sources = append(sources, of.Source)
				}
			}
			return sources
		}
		if err := quiet(); schemas.KindOf(err) != schemas.Throttled {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got := full(); !slices.Equal(got, []string{"orders", "quiet"}) {
			t.Errorf("while there is no room, %q are full", got)
		}
		u.b.set(false, true)
		time.Sleep(3 * time.Second)
		if st := u.s.Stats(); st != nil {
			t.Errorf("when all is drained: %+v", st)
		}

		u.b.set(true, true)
		u.s.syncs = func(*segment, []*entry) error { return errors.New("no space left on device") }
		if err := quiet(); err == nil || !slices.Equal(full(), []string{"quiet"}) {
			t.Errorf("a disk that takes nothing: %v, %+v", err, u.s.Stats())
		}
		time.Sleep(time.Minute)
		if st := u.s.Stats(); st != nil {
			t.Errorf("nothing is on disk, and nobody was refused for a minute: %+v", st)
		}
		u.b.set(false, true)
		u.stop()
	})
}

// A log of segments goes on to the next file, and those that are done with are deleted though the first is not.
func TestSegments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		body := bytes.Repeat([]byte("x"), 5<<20)
		for i := range 8 {
			e := &schemas.Event{ID: fmt.Sprint(i), Source: "/acme/orders", Entity: schemas.EntityKey(fmt.Sprint(i)), Data: body}
			if err := u.s.Append(t.Context(), time.Time{}, "t", e); !errors.Is(err, ingest.ErrSpooled) {
				t.Fatal(err)
			}
		}
		if n := len(u.files()); n != 2 {
			t.Errorf("%d files", n)
		}
		u.kill()
		u.open()
		u.run()
		time.Sleep(time.Second)
		if got, _ := u.b.kept(); len(got) != 8 || len(u.files()) > 0 || u.s.size.Load() != 0 {
			t.Errorf("%d records, %v", len(got), u.files())
		}
		u.stop()
	})
}

func TestQuarantinedIsSpooled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		d := &ingest.Delivery{Team: "acme", Source: "orders", Reason: "no_id", Body: []byte("{}")}
		if err := u.s.Quarantine(t.Context(), time.Time{}, "quarantine.acme.orders", d); !errors.Is(err, ingest.ErrSpooled) {
			t.Fatal(err)
		}
		u.kill()
		u.open()
		u.run()
		time.Sleep(time.Second)
		got, _ := u.b.kept()
		if len(got) != 1 || got[0].Topic != "quarantine.acme.orders" || got[0].Key != nil || string(got[0].Headers[0].Value) != "no_id" {
			t.Errorf("%+v", got)
		}
		u.stop()
	})
}

// element is an event whose entity is the first letter of its id.
func element(id string) *schemas.Event {
	return &schemas.Event{ID: id, Source: "/acme/orders", Entity: schemas.EntityKey(id[:1]), Data: []byte(id)}
}

// What one delivery comes to is durable before its answer, and each entity's in its order: in the log while that answers, on disk while it does not,
// and in part on either where only some of its entities wait there.
func TestLists(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		u.run()
		list := func(ids ...string) error {
			var events []*schemas.Event
			for _, id := range ids {
				events = append(events, element(id))
			}
			unusable := &ingest.Delivery{Team: "acme", Source: "orders", Kind: ingest.KindUnusable, Body: []byte("5 beside " + ids[0])}
			return u.s.AppendAll(t.Context(), time.Now().Add(9*time.Second), "events.acme.orders", events, "quarantine.acme.orders", []*ingest.Delivery{unusable})
		}
		if err := list("a1", "b1", "a2"); err != nil || u.s.Stats() != nil {
			t.Fatalf("while the broker answers: %v, %v", err, u.s.Stats())
		}
		u.b.set(true, false)
		var all sync.WaitGroup
		all.Go(func() { u.spooled("a", "a3") })
		time.Sleep(time.Second)
		all.Go(func() { // it goes to the disk with the older one, whole
			if err := list("b2", "a4", "a5"); !errors.Is(err, ingest.ErrSpooled) {
				t.Errorf("beside an older one: %v", err)
			}
		})
		all.Wait()
		if err := list("a6", "c1", "a7"); !errors.Is(err, ingest.ErrSpooled) {
			t.Errorf("while the broker is away: %v", err)
		}
		if st := u.s.Stats(); len(st) != 1 || st[0].Records != 1+4+4 {
			t.Errorf("%+v", st)
		}
		u.b.set(false, true)
		time.Sleep(5 * time.Second)
		u.want("a", "a1", "a2", "a3", "a4", "a5", "a6", "a7")
		u.want("b", "b1", "b2")
		u.want("c", "c1")
		u.want("", "5 beside a1", "5 beside b2", "5 beside a6")

		u.s.syncs = func(*segment, []*entry) error { return errors.New("no space left on device") }
		u.b.set(true, false)
		if err := list("d1"); schemas.KindOf(err) != schemas.Unavailable || errors.Is(err, ingest.ErrSpooled) {
			t.Errorf("without a disk: %v", err)
		}
		u.s.syncs = (*segment).append
		u.stop()
	})
}

// Of a list, entities that wait on disk go there, and the others to the log. While nothing is to be kept on disk, the whole is refused.
func TestListInPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		var kept atomic.Int64
		u.s.syncs = func(g *segment, list []*entry) error { kept.Add(int64(len(list))); return g.append(list) }
		u.run()
		q, err := u.s.queue("acme", "orders")
		if err != nil {
			t.Fatal(err)
		}
		waits := &call{topic: "events.acme.orders", event: element("a1"), cancel: func() {}}
		if _, _, err := q.enter([]*call{waits}); err != nil {
			t.Fatal(err)
		}
		q.mu.Lock()
		q.move(q.lanes[waits.lane()]) // nobody has written it yet
		q.mu.Unlock()
		both := []*schemas.Event{element("b1"), element("a2"), element("b2")}
		u.spools = false
		if err := u.s.AppendAll(t.Context(), time.Time{}, "events.acme.orders", both, "quarantine.acme.orders", nil); schemas.KindOf(err) != schemas.Unavailable {
			t.Errorf("of a source that keeps nothing on disk: %v", err)
		}
		u.want("b")
		u.spools = true
		if err := u.s.AppendAll(t.Context(), time.Time{}, "events.acme.orders", both, "quarantine.acme.orders", nil); !errors.Is(err, ingest.ErrSpooled) {
			t.Error(err)
		}
		u.want("b", "b1", "b2")
		if n := kept.Load(); n != 2 { // Stats may be past it: what is on disk is drained at once
			t.Errorf("%d are kept on disk", n)
		}
		time.Sleep(5 * time.Second)
		u.want("a", "a1", "a2")
		u.stop()
	})
}

// What was refused is nobody's loss: it goes to the log, or nowhere.
func TestRefusedIsNotSpooled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		u.run()
		u.b.set(true, false)
		d := &ingest.Delivery{Team: "acme", Source: "orders", Kind: ingest.KindRefused, Reason: "mismatch", Body: []byte("forged")}
		if err := u.s.Quarantine(t.Context(), time.Now().Add(time.Second), "quarantine.acme.orders", d); schemas.KindOf(err) != schemas.Unavailable || u.s.Stats() != nil {
			t.Errorf("%v, %+v", err, u.s.Stats())
		}
		u.stop()
	})
}

// A sender who gives up gets nothing written, and a slow disk no 202 after the provider's time.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newSetup(t)
		u.run()
		u.b.set(true, false)
		late := u.s.Append(t.Context(), time.Now(), "events.acme.orders", &schemas.Event{ID: "0", Source: "/acme/orders", Entity: "late"})
		u.b.set(false, true)
		if err := u.send("late", "1"); schemas.KindOf(late) != schemas.Unavailable || err != nil {
			t.Errorf("later than it may be: %v; then the log answers: %v", late, err)
		}
		u.b.set(true, false)
		late = u.s.Append(t.Context(), time.Now().Add(5*time.Millisecond), "events.acme.orders", &schemas.Event{ID: "2", Source: "/acme/orders", Entity: "late"})
		next := make(chan error, 1)
		go func() { next <- u.send("other", "1") }()
		synctest.Wait()
		u.b.set(false, false)
		if err := <-next; !errors.Is(late, ingest.ErrSpooled) || err != nil {
			t.Errorf("with no time for the log: %v; another that has time for it: %v", late, err)
		}
		synctest.Wait()
		u.b.set(true, false)
		go func() { next <- u.send("other", "2") }()
		time.Sleep(8*time.Second - time.Millisecond) // it has given the log up when the one that has no time does
		_ = u.s.Append(t.Context(), time.Now().Add(5*time.Millisecond), "events.acme.orders", &schemas.Event{ID: "3", Source: "/acme/orders", Entity: "late"})
		at := time.Now()
		if u.spooled("third", "1"); time.Since(at) > 0 {
			t.Errorf("the log was asked for %s behind one that had no time, though it is away", time.Since(at))
		}
		<-next
		u.b.set(false, false)
		time.Sleep(3 * time.Second)
		u.b.set(true, false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		e := &schemas.Event{ID: "1", Source: "/acme/orders", Entity: "a"}
		if err := u.s.Append(ctx, time.Now().Add(9*time.Second), "t", e); schemas.KindOf(err) != schemas.Unavailable || u.s.Stats() != nil {
			t.Errorf("%v, %+v", err, u.s.Stats())
		}
		hangs := make(chan struct{})
		u.s.syncs = func(s *segment, list []*entry) error { <-hangs; return s.append(list) }
		began := time.Now()
		var first sync.WaitGroup
		first.Go(func() { _ = u.send("b", "1") })
		time.Sleep(time.Millisecond)
		if err := u.send("b", "2"); schemas.KindOf(err) != schemas.Unavailable || time.Since(began) > 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := u.send("c", "1"); schemas.KindOf(err) != schemas.Unavailable {
			t.Error(err)
		}
		q, err := u.s.queue("acme", "orders")
		if err != nil {
			t.Fatal(err)
		}
		q.mu.Lock()
		writes := int64(headSize)
		for _, e := range q.lanes[laneName("events.acme.orders", "b")].entries {
			writes += e.size
		}
		if used := u.s.size.Load(); len(q.batch) > 0 || len(q.lanes) != 1 || used != writes {
			t.Errorf("%d bytes are being written and %d used; %d refused deliveries wait, of %d entities", writes, used, len(q.batch), len(q.lanes)-1)
		}
		q.mu.Unlock()
		close(hangs)
		first.Wait()
		u.spools = false
		u.b.set(false, true)
		time.Sleep(3 * time.Second)
		if err := u.send("c", "2"); err != nil {
			t.Errorf("of an entity of which nothing was written, from a source that keeps no more on disk: %v", err)
		}
		u.want("b", "1", "2") // they were being written
		u.want("c", "2")
		if u.stop(); len(u.files()) > 0 || u.s.size.Load() != 0 {
			t.Errorf("%v, %d bytes are left", u.files(), u.s.size.Load())
		}
	})
}

// What the log has taken after all is not written to the disk, for which nobody may be waiting.
func TestInTheLogAfterAll(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	u.s.started.Store(true)
	q, err := u.s.queue("acme", "orders")
	if err != nil {
		t.Fatal(err)
	}
	calls := []*call{{topic: "events.acme.orders", event: element("a1"), cancel: func() {}}}
	if _, _, err := q.enter(calls); err != nil {
		t.Fatal(err)
	}
	q.move(q.lanes[calls[0].lane()]) // for an older one, which was given up meanwhile
	_, err = q.leave(t.Context(), calls, time.Now(), time.Time{}, nil)
	if !errors.Is(err, ingest.ErrSpooled) || len(q.batch)+len(q.lanes) > 0 || u.s.size.Load() != 0 {
		t.Errorf("%v; %d to be written, %d entities, %d bytes", err, len(q.batch), len(q.lanes), u.s.size.Load())
	}
}

func FuzzSegment(f *testing.F) {
	head, err := newHead()
	if err != nil {
		f.Fatal(err)
	}
	marker := markerOf(head)
	payload := encode(time.Unix(1, 0), &kgo.Record{Topic: "t", Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}}})
	whole := slices.Concat(head, headOf(marker, payload), payload, headOf(marker, payload), payload)
	f.Add(whole, 3)
	f.Add(whole[:len(whole)-4], 60)
	f.Add([]byte{}, 0)
	f.Add([]byte("not ours"), 1)
	f.Add(append(bytes.Clone(whole), make([]byte, 99)...), 70)
	f.Fuzz(func(t *testing.T, data []byte, flip int) {
		check := func(data []byte) (records int) {
			pieces, torn, ok := scan(data)
			if !ok {
				return 0
			}
			at := int64(headSize)
			for _, p := range pieces {
				if p.at != at || p.size <= 0 {
					t.Fatalf("%+v, want one at %d", p, at)
				}
				at += p.size
				if !p.damaged {
					records++
					if _, ok := payloadOf(data[p.at:at], markerOf(data)); !ok {
						t.Fatal("a record that is none")
					}
					_, _, _ = decode(data[p.at+recordHead : at])
				}
			}
			if at+torn != int64(len(data)) {
				t.Fatalf("%d and %d of %d bytes", at, torn, len(data))
			}
			return records
		}
		_, _, _ = decode(data)
		before := check(data)
		pieces, torn, _ := scan(data)
		flawless := before > 0 && before == len(pieces) && torn == 0 && bytes.Equal(data[:headHalf], data[headHalf:headSize])
		if flawless { // a flipped byte costs one record at most
			changed := bytes.Clone(data)
			changed[uint(flip)%uint(len(data))] ^= 0x41
			if after := check(changed); after < before-1 {
				t.Fatalf("%d of %d records", after, before)
			}
		}
	})
}

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	came := time.Unix(0, 1234567890123456789)
	for _, r := range []*kgo.Record{
		{Topic: "t", Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte{}}, {Key: "b", Value: []byte("\xff\x00")}}},
		{Topic: "t", Key: []byte{}, Value: []byte{}},
		{Topic: "t", Value: bytes.Repeat([]byte("x"), 1000)},
	} {
		at, got, err := decode(encode(came, r))
		if err != nil || !at.Equal(came) || got.Topic != r.Topic || (got.Key == nil) != (r.Key == nil) || !bytes.Equal(got.Key, r.Key) ||
			got.Value == nil || !bytes.Equal(got.Value, r.Value) || fmt.Sprint(got.Headers) != fmt.Sprint(r.Headers) {
			t.Errorf("%+v became %+v, %v", r, got, err)
		}
	}
}

// BenchmarkSpool is what the disk takes, with callers that each wait for it.
func BenchmarkSpool(b *testing.B) {
	u := newSetup(b)
	u.s.c.MaxSize = 1 << 40
	body := bytes.Repeat([]byte("x"), 4<<10)
	b.SetParallelism(128)
	b.RunParallel(func(p *testing.PB) {
		e := &schemas.Event{ID: "1", Source: "/acme/orders", Entity: schemas.EntityKey(fmt.Sprint(rand.N(1000))), Data: body}
		for p.Next() {
			if err := u.s.Append(context.Background(), time.Time{}, "t", e); !errors.Is(err, ingest.ErrSpooled) {
				b.Error(err)
			}
		}
	})
	u.kill()
}
