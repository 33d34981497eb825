package reader

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Config is what a reader needs to know.
type Config struct {
	// Client is what every client of the subscription shares: seed brokers, TLS, SASL.
	Client []kgo.Opt
	// Filter reports whether an event is wanted.
	Filter         func(eventType, source string) bool
	BatchRecords   int         // most records of a [Unit]
	BatchBytes     int         // most bytes of one with more than one record
	MaxRecordBytes int         // what one record may weigh, decompressed batch included
	OnError        func(error) // is told of errors that are about no claimed partition
}

// Reader reads claimed partitions from exact offsets and hands them over decoded, while the batch before is being committed.
// It has a client of its own that knows nothing of the group, so that positions only ever come from the ledger: no reset
// policy, no committed offset, no rebalance can move it.
//
// Every claim has its own [Reading]: what was polled for a claim that has ended is told from what belongs to
// its successor, which may have to start lower. Partitions are therefore added, removed and polled by one goroutine,
// and a poll is labelled before the next change: removing a partition drops what kgo has buffered for it.
//
// Whatever goes wrong with a partition, it is read again from behind what was handed over last: kgo's own cursor may have
// moved over records that nobody got.
type Reader struct {
	cl      *kgo.Client
	chunks  *chunkReader // for a batch as it stands in the log; nil in tests
	filter  func(eventType, source string) bool
	records int
	bytes   int
	most    int                                                   // bytes of a record
	onError func(err error)                                       // about no claimed partition
	count   func(ctx context.Context, name string) (Topic, error) // see counting

	out     chan Unit   // unbuffered: at most one decoded poll waits to be taken. Never closed
	cmds    chan func() // never closed
	waiting atomic.Int32
	wake    atomic.Pointer[context.CancelFunc]

	readings map[TopicPartition]*Reading // owned by Run
}

// Reading is the reading of one claimed partition, from [Reader.Add] to [Reader.Drop].
type Reading struct {
	Partition  ledger.Partition
	partitions int32 // of the topic: they say where a key belongs

	next     ledger.Position // what was read up to
	failures int             // in a row
	retryAt  time.Time       // when to read on after one; zero: it is being read
}

func (r *Reading) at() TopicPartition { return At(r.Partition) }

// Part is what one poll brought of one partition.
type Part struct {
	Of      *Reading
	From    int64 // where what is in it begins to have been read
	Records []ledger.Record
	Events  []*schemas.Event // nil where undecodable; as long as Records
	Next    ledger.Position
	Bytes   int
	End     int64 // of the log for readers of committed records, as of the poll
	Err     error // reading stands still at From: nothing else is set
}

// Unit is what fits a batch.
type Unit struct {
	Parts   []Part
	Records int
	Bytes   int
}

// New makes a reader over a client with [ClientOptions]. Nothing is read before [Reader.Run].
func New(cl *kgo.Client, log *Log, cfg Config) *Reader {
	return &Reader{
		cl: cl, chunks: log.chunks, count: log.Count,
		filter: cfg.Filter, records: cfg.BatchRecords, bytes: cfg.BatchBytes, most: cfg.MaxRecordBytes, onError: cfg.OnError,
		out: make(chan Unit), cmds: make(chan func()), readings: map[TopicPartition]*Reading{},
	}
}

// Out brings what is read. Whoever takes a unit may have ended the claim of one of its parts since, and leaves that out.
func (f *Reader) Out() <-chan Unit { return f.out }

// fetchBytes bounds what one fetch brings, as it is on the wire: bodies that compress well unpack to ten times as much,
// and all of it is in memory at once.
const fetchBytes = 4 << 20

// ClientOptions make a client that reads committed records from where it is told and never moves by itself. Control
// records are kept and dropped here, because they are what carries a position over the end of a transaction: without
// them a partition that ends in an aborted batch would never be read to its end.
func ClientOptions(cfg Config) ([]kgo.Opt, error) {
	maxRead := int32(cfg.MaxRecordBytes)
	unpack, err := unpackOptions(cfg.MaxRecordBytes)
	if err != nil {
		return nil, err
	}
	return append(append(unpack, cfg.Client...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(min(int32(cfg.BatchBytes), fetchBytes)), // a larger record still comes, alone (KIP-74)
		kgo.FetchMaxPartitionBytes(min(int32(cfg.BatchBytes), fetchBytes/4)),
		kgo.BrokerMaxReadBytes(max(maxRead+1<<20, 100<<20)),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.FetchMaxWait(500*time.Millisecond), // a new claim waits for the long poll that is under way at its broker
	), nil
}

// do runs fn between two polls and returns when it has run, or when ctx is done.
func (f *Reader) do(ctx context.Context, fn func()) {
	f.waiting.Add(1)
	if c := f.wake.Load(); c != nil {
		(*c)()
	}
	ran := make(chan struct{})
	select {
	case f.cmds <- func() { fn(); close(ran) }:
		<-ran
	case <-ctx.Done():
		f.waiting.Add(-1)
	}
}

// Add reads a partition of a topic of so many partitions from a position on, until it is dropped.
func (f *Reader) Add(ctx context.Context, p ledger.Partition, partitions int32, from ledger.Position) *Reading {
	r := &Reading{Partition: p, partitions: partitions, next: from}
	f.do(ctx, func() {
		f.remove(r.at())
		f.readings[r.at()] = r
		f.read(r.at(), from)
	})
	return r
}

// read has kgo read a partition from a position on. With the epoch, it checks for truncation before it reads, and again
// whenever the leader changes.
func (f *Reader) read(at TopicPartition, from ledger.Position) {
	offset := kgo.NewOffset().At(from.Offset)
	if from.LeaderEpoch >= 0 {
		offset = offset.WithEpoch(from.LeaderEpoch)
	}
	f.cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{at.Topic: {at.Number: offset}})
}

// Drop ends a reading. Parts of it may still come out.
func (f *Reader) Drop(ctx context.Context, r *Reading) {
	f.do(ctx, func() {
		if f.readings[r.at()] == r {
			f.remove(r.at())
		}
	})
}

func (f *Reader) remove(at TopicPartition) {
	if f.readings[at] == nil {
		return
	}
	delete(f.readings, at)
	f.stop(at)
}

// stop has kgo read a partition no more, and drop what it has buffered of it.
func (f *Reader) stop(at TopicPartition) {
	f.cl.RemoveConsumePartitions(map[string][]int32{at.Topic: {at.Number}})
}

func (f *Reader) command(fn func()) {
	f.waiting.Add(-1)
	fn()
}

// Run polls until ctx is done.
func (f *Reader) Run(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := f.poll(ctx)
		for _, u := range f.units(ctx, fetches) {
			if !f.hand(ctx, u) {
				return
			}
		}
		if fetches.NumRecords() == 0 && fetches.Err() != nil && !isDone(fetches.Err()) {
			f.pause(ctx)
		}
	}
}

// isDone reports whether a poll only ended because its context did.
func isDone(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// pause keeps an error that comes back at once from spinning.
func (f *Reader) pause(ctx context.Context) {
	timer := time.NewTimer(200 * time.Millisecond)
	defer timer.Stop()
	for {
		select {
		case fn := <-f.cmds:
			f.command(fn)
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// hand gives a unit away, and goes on taking commands while nobody takes it: who is to take it gives some of them.
func (f *Reader) hand(ctx context.Context, u Unit) bool {
	for {
		select {
		case f.out <- u:
			return true
		case fn := <-f.cmds:
			f.command(fn)
		case <-ctx.Done():
			return false
		}
	}
}

func (f *Reader) poll(ctx context.Context) kgo.Fetches {
	pctx, cancel := f.untilRetry(ctx)
	defer cancel()
	f.wake.Store(&cancel)
	for f.waiting.Load() > 0 || len(f.readings) == 0 {
		select {
		case fn := <-f.cmds:
			f.command(fn)
		case <-ctx.Done():
			return nil
		}
	}
	if pctx.Err() != nil {
		return nil // woken for a command that has run by now
	}
	return f.cl.PollRecords(pctx, f.records)
}

// untilRetry reads partitions again whose pause is over, and gives the context of a poll that ends when the next one's is.
func (f *Reader) untilRetry(ctx context.Context) (context.Context, context.CancelFunc) {
	var first time.Time
	for _, in := range f.readings {
		switch {
		case in.retryAt.IsZero():
		case !time.Now().Before(in.retryAt):
			in.retryAt = time.Time{}
			f.read(in.at(), in.next)
		case first.IsZero() || in.retryAt.Before(first):
			first = in.retryAt
		}
	}
	if first.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, first)
}

// failed stops the reading of a partition for a while, longer each time, and says why.
func (f *Reader) failed(in *Reading, err error) Part {
	f.stop(in.at())
	in.retryAt = time.Now().Add(min(200*time.Millisecond<<min(in.failures, 5), 5*time.Second))
	in.failures++
	return Part{Of: in, From: in.next.Offset, Err: err}
}

// units cuts a poll into what fits a batch each, in order. A record that is larger than a batch comes alone.
func (f *Reader) units(ctx context.Context, fetches kgo.Fetches) []Unit {
	c := cutting{f: f, counts: counting{ask: f.count}}
	fetches.EachPartition(func(tp kgo.FetchTopicPartition) {
		in := f.readings[TopicPartition{tp.Topic, tp.Partition}]
		if in == nil { // an error about the client, or a partition given up
			if tp.Err != nil && !isDone(tp.Err) {
				f.onError(tp.Err)
			}
			return
		}
		if !in.retryAt.IsZero() { // failed in this poll: it is read again from before this
			return
		}
		if err := moved(fetches, tp.Topic, tp.Partition); err != nil {
			c.Parts = append(c.Parts, f.failed(in, err)) // records beside it are not trusted: they may lie behind a truncation
			return
		}
		if tp.LogStartOffset > in.next.Offset { // kgo moves an offset into the log where it had to look the partition up first
			c.Parts = append(c.Parts, f.failed(in, kerr.OffsetOutOfRange))
			return
		}
		c.part = nil
		for _, r := range tp.Records {
			if err := c.record(ctx, in, r, tp.LastStableOffset); err != nil {
				c.Parts = append(c.Parts, f.failed(in, err))
				return
			}
		}
		e, large := errors.AsType[*kgo.ErrDecompressTooLarge](tp.Err)
		switch {
		case large && e.NextOffset > in.next.Offset:
			next := ledger.Position{Offset: e.NextOffset, LeaderEpoch: e.Epoch}
			rec := f.unread(ctx, in, e) // before kgo goes on behind it
			c.put(in, next, tp.LastStableOffset, 0)
			c.add(rec, nil)
			f.skip(in, next)
		case tp.Err != nil: // a batch that is broken: the records before it are good
			c.Parts = append(c.Parts, f.failed(in, tp.Err))
		}
	})
	if len(c.Parts) > 0 {
		c.units = append(c.units, c.Unit)
	}
	return c.units
}

// cutting is a poll on its way into units.
type cutting struct {
	f      *Reader
	counts counting
	units  []Unit
	Unit
	part *Part // of the partition at hand in the unit at hand; nil: none yet
}

// record takes one record of a partition. An error means that it cannot be decided yet.
func (c *cutting) record(ctx context.Context, in *Reading, r *kgo.Record, end int64) error {
	if r.Offset < in.next.Offset {
		return nil
	}
	size, next := weight(r), ledger.Position{Offset: r.Offset + 1, LeaderEpoch: r.LeaderEpoch}
	if r.Attrs.IsControl() {
		c.put(in, next, end, size)
		return nil
	}
	rec, event := decode(r, c.f.filter, bounds{partitions: in.partitions, bytes: c.f.most})
	if rec.Broken == gate.ReasonMisplaced {
		if err := c.counts.check(ctx, in); err != nil {
			return err
		}
	}
	c.put(in, next, end, size)
	c.add(rec, event)
	c.Bytes += size
	c.part.Bytes += size
	return nil
}

// put makes room for size bytes of a partition that is read up to next.
func (c *cutting) put(in *Reading, next ledger.Position, end int64, size int) {
	if c.Records >= c.f.records || c.Records > 0 && c.Bytes+size > c.f.bytes {
		c.units, c.Unit, c.part = append(c.units, c.Unit), Unit{}, nil
	}
	if c.part == nil {
		c.Parts = append(c.Parts, Part{Of: in, From: in.next.Offset})
		c.part = &c.Parts[len(c.Parts)-1]
	}
	in.next, in.failures = next, 0
	c.part.End, c.part.Next = max(end, next.Offset), next
}

func (c *cutting) add(rec ledger.Record, event *schemas.Event) {
	c.part.Records, c.part.Events = append(c.part.Records, rec), append(c.part.Events, event)
	c.Records++
}

// skip reads on behind a batch that cannot be read: kgo has stopped in front of it.
func (f *Reader) skip(in *Reading, to ledger.Position) {
	f.stop(in.at())
	f.read(in.at(), to)
}

// unreadTimeout bounds the reading of a batch as it stands in the log: the reader takes no commands meanwhile.
const unreadTimeout = 2 * time.Second

// unread is the ledger's view of a batch that decompresses to more than is read: one row for all of its records, at
// the first one's place, with the batch as it stands in the log where that can be had and kept.
func (f *Reader) unread(ctx context.Context, in *Reading, e *kgo.ErrDecompressTooLarge) ledger.Record {
	from := max(e.Offset, in.next.Offset)
	rec := ledger.Record{Record: gate.Record{Offset: from, Broken: gate.ReasonTooLarge}, LeaderEpoch: e.Epoch}
	rec.Error = fmt.Sprintf("the batch of offsets %d to %d decompresses to more than the %d bytes that are read, or to more records than are; all of it is in the log for as long as the topic keeps it",
		from, e.NextOffset-1, f.most)
	if f.chunks == nil {
		return rec
	}
	ctx, cancel := context.WithTimeout(ctx, unreadTimeout)
	defer cancel()
	raw, err := f.chunks.batch(ctx, in.Partition, from)
	if err == nil && len(raw) <= keptBatch {
		rec.Packed = func() []byte { return raw }
		rec.Error += "; kept here is the batch as it stands there, compressed"
	}
	return rec
}

// keptBatch is the largest batch that is kept as it is.
const keptBatch = 1 << 20

// moved is the error of a partition in a poll that says that its log may not be what it was: the broker's own, or kgo's notes
// about lost data, which come as fetches of their own, after those with records. An error of kgo's about a batch that it
// could not decode says nothing against the records before it.
func moved(fetches kgo.Fetches, topic string, number int32) (found error) {
	fetches.EachPartition(func(tp kgo.FetchTopicPartition) {
		if tp.Topic != topic || tp.Partition != number || tp.Err == nil {
			return
		}
		_, broker := errors.AsType[*kerr.Error](tp.Err)
		_, lost := errors.AsType[*kgo.ErrDataLoss](tp.Err)
		if broker || lost {
			found = tp.Err
		}
	})
	return found
}

func weight(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
