// Package spool keeps acknowledged deliveries on a local disk while the broker is away: it is an [ingest.Log] before the producer's.
//
// A delivery is given to the log first. If that does not answer in time, its record is written to a file of its source, synced, and
// acknowledged; syncs are shared by all who wait. Once the log answers again, the records are given to it in order, an entity's one after the
// other. Of one entity, nothing overtakes:
//
//   - While records of an entity are on disk, newer deliveries of it go there too.
//   - When a delivery goes to the disk, the older ones of its entity that still wait for the log go there before it.
//   - What the log did not answer for in time may still be written by it, and is on disk as well. Both copies have one identity, so that
//     only the first of them counts. It has the older deliveries before it in either way: the producer's client keeps the order of what it
//     was given for a partition, and when it gives up a record, it gives up all that wait behind it. (What is given to it in that very
//     moment, by a sender who did not wait for the answer to the one before, may come first.)
//   - Of a burst of an entity the next is sent when the one before is acknowledged, and after a failure a burst is a single record.
//
// While nothing of a source is acknowledged, its deliveries go to the disk at once, and one entity after the other is tried. A process that is
// killed gives what it finds on disk to the log again, from the beginning of each file that is still there.
package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/semaphore"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
)

// Producer is what the records are for, behind the [ingest.Log]. ProduceAll appends records in order and returns how many of them, from the first
// on, are durable. Between it and the log's methods the order of calls is kept for a key.
type Producer interface {
	Record(topic string, e *schemas.Event) *kgo.Record
	QuarantineRecord(topic string, d *ingest.Delivery) *kgo.Record
	ProduceAll(ctx context.Context, by time.Time, records []*kgo.Record) (durable int, err error)
}

// Config is what a [Spool] needs.
type Config struct {
	// Dir is the directory; required. One process has it at a time.
	Dir string
	// MaxSize bounds the files in it, in bytes; beyond it deliveries are Throttled. Default 1 GiB.
	MaxSize int64
	// Log is where deliveries go to, and Producer where what is on disk goes; required.
	Log      ingest.Log
	Producer Producer
	// Spools says whether deliveries of a source go to the disk; required. What is there goes to the log in any case.
	Spools func(team, source string) bool
	// Topic returns where events of a source go, and an empty string for one that is gone; required. What is on disk may be from before a rekey,
	// and nobody reads the topic of then: it goes to that of now. What is of a source that is gone goes where it was to go. What is of one that is
	// not known, be it gone or not, stays on disk until [Spool.Known].
	Topic func(team, source string) (topic string, known bool)
	// QuarantineTopic returns where damaged records of a source go; required.
	QuarantineTopic func(team, source string) string
	Logger          *slog.Logger          // default none
	Registerer      prometheus.Registerer // default none
}

const (
	defaultMaxSize = 1 << 30
	segmentSize    = 16 << 20 // a larger segment is not written to any more
	commitSize     = 4 << 20  // what one sync is for, at most and beside a single larger record
	burstSize      = 1 << 20  // what an entity gives to the log at once, likewise
	burstRecords   = 64
	drainMemory    = 64 << 20               // of all bursts
	drainTry       = 2 * time.Second        // how long a burst waits for the log
	drainPause     = 500 * time.Millisecond // before an entity is tried again
	fairTry        = 500 * time.Millisecond // a delivery that had less for the log says nothing of it
)

// Spool is an [ingest.Log]. Safe for concurrent use.
type Spool struct {
	c       Config
	lock    *os.File
	size    atomic.Int64 // of all files, with what is about to be written
	freed   atomic.Int64 // how often there was room again, after a file was removed or a burst was taken
	started atomic.Bool  // Run was called: deliveries go to the log first
	memory  *semaphore.Weighted
	wake    chan struct{} // capacity 1: an entity can be tried
	syncs   func(*segment, []*entry) error
	reads   func(f io.ReaderAt, at, size int64) ([]byte, error) // at Open
	unread  int                                                 // how often Open has read files again, all together
	largest map[string]int64                                    // as Largest says

	mu     sync.Mutex
	open   bool
	queues map[string]*queue // by source, /team/source
}

var _ ingest.Log = (*Spool)(nil)

// New makes a spool. It touches no file.
func New(c Config) (*Spool, error) {
	switch {
	case c.Dir == "" || c.Log == nil || c.Producer == nil || c.Spools == nil || c.Topic == nil || c.QuarantineTopic == nil:
		return nil, errors.New("spool: Dir, Log, Producer, Spools, Topic and QuarantineTopic are required")
	case c.MaxSize < 0:
		return nil, errors.New("spool: MaxSize must not be negative")
	}
	c.MaxSize = cmp.Or(c.MaxSize, defaultMaxSize)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Spool{c: c, memory: semaphore.NewWeighted(drainMemory), wake: make(chan struct{}, 1), queues: map[string]*queue{}, largest: map[string]int64{}, syncs: (*segment).append, reads: readable}
	if c.Registerer != nil {
		return s, c.Registerer.Register(collector{s})
	}
	return s, nil
}

// Open locks the directory, reads what is in it and begins to take deliveries. Until Run, all of them go to the disk.
func (s *Spool) Open() (err error) {
	if err = s.lockDir(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.lock.Close()
			err = fmt.Errorf("intake.spool.dir: %w", err)
		}
	}()
	entries, err := os.ReadDir(s.c.Dir)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		team, source, ok := strings.Cut(e.Name(), ".")
		if !ok || !e.IsDir() {
			continue
		}
		if err = s.newQueue(team, source).load(); err != nil {
			return err
		}
	}
	s.open = true
	return nil
}

// lockDir makes the directory this process's alone.
func (s *Spool) lockDir() error {
	err := os.MkdirAll(s.c.Dir, 0o700)
	if err == nil {
		s.lock, err = os.OpenFile(filepath.Join(s.c.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		return fmt.Errorf("intake.spool.dir: %w", err)
	}
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		s.lock.Close()
		return fmt.Errorf("intake.spool.dir: %s is in use by another process; each intake needs a directory of its own: %w", s.c.Dir, err)
	}
	return nil
}

// Run gives what is on disk to the log until ctx is done. From then on deliveries are given to the log first.
func (s *Spool) Run(ctx context.Context) {
	s.started.Store(true)
	var bursts sync.WaitGroup
	defer bursts.Wait()
	for {
		idle := true
		for _, q := range s.all() {
			b := q.next()
			if b == nil {
				continue
			}
			idle = false
			weight := min(drainMemory, max(burstSize, b.size))
			if s.memory.Acquire(ctx, weight) != nil {
				return
			}
			bursts.Go(func() {
				defer s.memory.Release(weight)
				q.drain(ctx, b)
			})
		}
		if !idle {
			continue
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
	}
}

// Known is to be called when Topic may know more sources than at Open: it gives what is on disk of these to the log, too.
func (s *Spool) Known() {
	for _, q := range s.all() {
		q.know()
	}
	s.signal()
}

// Close ends it, after Run has returned. What is on disk stays there.
func (s *Spool) Close() {
	s.mu.Lock()
	open := s.open
	s.open = false
	s.mu.Unlock()
	if !open {
		return
	}
	for _, q := range s.all() {
		q.close()
	}
	s.lock.Close()
}

// Append implements [ingest.Log]. It returns [ingest.ErrSpooled] for a delivery that is on disk.
func (s *Spool) Append(ctx context.Context, by time.Time, topic string, e *schemas.Event) error {
	team, source, _ := strings.Cut(strings.TrimPrefix(e.Source, "/"), "/")
	return s.take(ctx, by, team, source, []*call{{topic: topic, event: e}}, func(ctx context.Context, by time.Time, _ []*call) error {
		return s.c.Log.Append(ctx, by, topic, e)
	})
}

// Quarantine implements [ingest.Log], as Append does. What was refused is given to the log alone: nobody was promised anything.
func (s *Spool) Quarantine(ctx context.Context, by time.Time, topic string, d *ingest.Delivery) error {
	if d.Kind == ingest.KindRefused {
		return s.c.Log.Quarantine(ctx, by, topic, d)
	}
	return s.take(ctx, by, d.Team, d.Source, []*call{{topic: topic, delivery: d}}, func(ctx context.Context, by time.Time, _ []*call) error {
		return s.c.Log.Quarantine(ctx, by, topic, d)
	})
}

// AppendAll implements [ingest.Log]. It returns [ingest.ErrSpooled] if a part is on disk; the rest is there, too, or in the log.
func (s *Spool) AppendAll(ctx context.Context, by time.Time, topic string, events []*schemas.Event, quarantine string, rest []*ingest.Delivery) error {
	calls := make([]*call, 0, len(events)+len(rest))
	var team, source string
	for _, e := range events {
		team, source, _ = strings.Cut(strings.TrimPrefix(e.Source, "/"), "/")
		calls = append(calls, &call{topic: topic, event: e})
	}
	for _, d := range rest {
		team, source = d.Team, d.Source
		calls = append(calls, &call{topic: quarantine, delivery: d})
	}
	return s.take(ctx, by, team, source, calls, func(ctx context.Context, by time.Time, calls []*call) error {
		var events []*schemas.Event
		var rest []*ingest.Delivery
		for _, c := range calls {
			if c.event != nil {
				events = append(events, c.event)
			} else {
				rest = append(rest, c.delivery)
			}
		}
		return s.c.Log.AppendAll(ctx, by, topic, events, quarantine, rest)
	})
}

func laneName(topic, key string) string { return topic + "\x00" + key }

// take gives what one delivery comes to to the log or, as far as it must be, to the disk. try gives calls to the log.
func (s *Spool) take(ctx context.Context, by time.Time, team, source string, calls []*call, try func(context.Context, time.Time, []*call) error) error {
	q, err := s.queue(team, source)
	if err == nil && !by.IsZero() && !time.Now().Before(by) { // that the log does not take it in time would say nothing of the log
		err = schemas.Errorf(schemas.Unavailable, "spool", "its body came too late to be durable before its sender gives up")
	}
	if err != nil {
		return err
	}
	trying, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, c := range calls {
		c.cancel = cancel
	}
	began, until := time.Now(), tryUntil(by)
	toLog, toDisk, err := q.enter(calls)
	if len(toLog) > 0 {
		var more []*call
		more, err = q.leave(ctx, toLog, began, until, try(trying, until, toLog))
		toDisk = append(toDisk, more...)
	}
	for _, c := range toDisk {
		failed := q.commit(ctx, by, c)
		if err == nil || errors.Is(err, ingest.ErrSpooled) {
			err = failed
		}
	}
	return err
}

// tryUntil is when the disk takes over: early enough for a sync before by.
func tryUntil(by time.Time) time.Time {
	if by.IsZero() {
		return by
	}
	return by.Add(-min(time.Second, max(0, time.Until(by)/4)))
}

func (s *Spool) queue(team, source string) (*queue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return nil, schemas.Errorf(schemas.Unavailable, "spool", "the spool is closed")
	}
	if q := s.queues["/"+team+"/"+source]; q != nil {
		return q, nil
	}
	return s.newQueue(team, source), nil
}

func (s *Spool) newQueue(team, source string) *queue {
	q := &queue{s: s, team: team, source: source, dir: filepath.Join(s.c.Dir, team+"."+source), lanes: map[string]*lane{}, turn: make(chan struct{}, 1)}
	s.queues["/"+team+"/"+source] = q
	return q
}

func (s *Spool) all() []*queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.queues))
}

func (s *Spool) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Stats is what a source has on disk.
type Stats struct {
	Team, Source string
	Records      int
	Bytes        int64
	Oldest       time.Time // when the oldest came
	Full         bool      // the last delivery found no room, in MaxSize or on the disk, and there has been none since
	Unread       int       // files that could not be read at the start, and may hold deliveries beside those
	Err          error     // why the log did not take the last that was tried; nil if it did
}

// Stats returns the sources that have something on disk, or may have, or found no room there, by name.
func (s *Spool) Stats() (list []Stats) {
	for _, q := range s.all() {
		if of := q.stats(); of.Records > 0 || of.Full || of.Unread > 0 {
			list = append(list, of)
		}
	}
	slices.SortFunc(list, func(a, b Stats) int { return cmp.Or(cmp.Compare(a.Team, b.Team), cmp.Compare(a.Source, b.Source)) })
	return list
}

// Largest returns the bytes of the largest body that Open has found, by topic. It must be possible to send it, whatever the topic's source takes now.
func (s *Spool) Largest() map[string]int64 { return s.largest }

// Size returns how many bytes are used, and how many there may be.
func (s *Spool) Size() (used, most int64) { return s.size.Load(), s.c.MaxSize }

// collector has the metrics.
type collector struct{ s *Spool }

var (
	labels      = []string{"team", "source"}
	descRecords = prometheus.NewDesc("forebay_spool_records", "Deliveries that were acknowledged and wait on this intake's disk for the brokers; a source without any is not there.", labels, nil)
	descOldest  = prometheus.NewDesc("forebay_spool_oldest_seconds", "For how long the oldest of them has waited.", labels, nil)
	descBytes   = prometheus.NewDesc("forebay_spool_bytes", "What they take there.", labels, nil)
	descUsed    = prometheus.NewDesc("forebay_spool_size_bytes", "Size of all files of the spool, which intake.spool.max_size bounds.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (collector) Describe(all chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRecords, descBytes, descOldest, descUsed} {
		all <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(all chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		all <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(descUsed, float64(c.s.size.Load()))
	for _, of := range c.s.Stats() {
		if of.Records > 0 {
			gauge(descRecords, float64(of.Records), of.Team, of.Source)
			gauge(descBytes, float64(of.Bytes), of.Team, of.Source)
			gauge(descOldest, time.Since(of.Oldest).Seconds(), of.Team, of.Source)
		}
	}
}
