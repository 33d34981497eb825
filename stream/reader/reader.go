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
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Config is what a reader needs to know.
type Config struct {
	// Client is what every client of the subscription shares: seed brokers, TLS, SASL.
	Client []kgo.Opt
	// Filter reports whether an event is wanted.
	Filter func(eventType, source string) bool
	// Select is asked about what Filter wants, says whether it matches, and gives its second key, zero: none. An error has the event quarantined.
	// nil matches everything.
	Select         func(e *schemas.Event) (matches bool, also gate.Also, err error)
	BatchRecords   int         // the most records of a [Unit]
	BatchBytes     int         // the most bytes of a unit that has more than one record
	MaxRecordBytes int         // the largest record, with the decompressed record batch that it is in
	OnError        func(error) // called with errors that are about no claimed partition
}

// Reader reads claimed partitions from exact offsets and hands their records over, decoded. It polls on while the previous batch is being
// committed. Its client knows nothing of the group: positions come from the ledger alone, and no reset policy, committed offset or
// rebalance can move them.
//
// Every claim has its own [Reading]: records that were polled for a claim that has ended are not taken for those of the next claim, which
// may start lower. Therefore one goroutine adds, removes and polls partitions, and knows for each poll which readings there were.
// Removing a partition drops what kgo has buffered of it.
//
// After any error, a partition is read again from the first record that was not handed over: kgo's own cursor may have moved past
// records that nobody got.
type Reader struct {
	cl        *kgo.Client
	chunks    *chunkReader // reads a record batch as it is in the log; nil in tests
	filter    func(eventType, source string) bool
	selects   func(e *schemas.Event) (matches bool, also gate.Also, err error)
	records   int                                                   // the most of a unit
	bytes     int                                                   // the most of a unit that has more than one record
	maxRecord int                                                   // the largest record, in bytes
	onError   func(err error)                                       // for errors that are about no claimed partition
	count     func(ctx context.Context, name string) (Topic, error) // see counting

	out     chan Unit                          // unbuffered: at most one decoded poll waits. Never closed
	calls   chan func()                        // never closed
	waiting atomic.Int32                       // calls that wait for the poll under way to end
	wake    atomic.Pointer[context.CancelFunc] // ends the poll under way

	readings map[TopicPartition]*Reading // used by Run's goroutine only
}

// Reading is the reading of one claimed partition, from [Reader.Add] to [Reader.Drop].
type Reading struct {
	Partition  ledger.Partition
	partitions int32 // how many the topic has, which decides in which one a key belongs

	next     ledger.Position // the next record to hand over
	failures int             // in a row
	retryAt  time.Time       // when to read on after a failure; zero: the partition is being read
}

func (r *Reading) at() TopicPartition { return At(r.Partition) }

// Part is what one poll has read of one partition.
type Part struct {
	Of      *Reading
	From    int64            // the part has all of [From, Next)
	Records []ledger.Record  // control records left out
	Events  []*schemas.Event // one for each of Records, nil if that is to be quarantined
	Next    ledger.Position
	Bytes   int
	End     int64 // the log's end (the high watermark: also of what is behind an open transaction), at the time of the poll
	Err     error // reading failed at From; only Of and From are set besides
}

// Unit is one or more parts that fit together into a batch.
type Unit struct {
	Parts   []Part
	Records int
	Bytes   int
}

// New makes a reader over a client with [ClientOptions]. Nothing is read before [Reader.Run].
func New(cl *kgo.Client, log *Log, cfg Config) *Reader {
	return &Reader{
		cl: cl, chunks: log.chunks, count: log.Count,
		filter: cfg.Filter, selects: cfg.Select, records: cfg.BatchRecords, bytes: cfg.BatchBytes, maxRecord: cfg.MaxRecordBytes, onError: cfg.OnError,
		out: make(chan Unit), calls: make(chan func()), readings: map[TopicPartition]*Reading{},
	}
}

// Out returns the channel of units. The receiver must skip parts of readings that were dropped meanwhile.
func (rd *Reader) Out() <-chan Unit { return rd.out }

// fetchBytes bounds one fetch, in bytes on the wire. Bodies that compress well unpack to ten times as much, which is in memory all at
// once.
const fetchBytes = 4 << 20

// ClientOptions returns the options of a client that reads committed records from given offsets and has no reset policy. kgo returns
// control records too, and the reader drops them after it has moved the position past them: otherwise a partition that ends with an
// aborted transaction would never be read to its end.
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

// do runs fn on Run's goroutine, between two polls, and ends the poll under way for that. It returns when fn has run, or when ctx is
// done before fn began.
func (rd *Reader) do(ctx context.Context, fn func()) {
	rd.waiting.Add(1)
	if c := rd.wake.Load(); c != nil {
		(*c)()
	}
	ran := make(chan struct{})
	select {
	case rd.calls <- func() { fn(); close(ran) }:
		<-ran
	case <-ctx.Done():
		rd.waiting.Add(-1)
	}
}

// Add reads a partition from a position on until [Reader.Drop]. partitions is how many its topic has.
func (rd *Reader) Add(ctx context.Context, p ledger.Partition, partitions int32, from ledger.Position) *Reading {
	r := &Reading{Partition: p, partitions: partitions, next: from}
	rd.do(ctx, func() {
		rd.remove(r.at())
		rd.readings[r.at()] = r
		rd.startReading(r.at(), from)
	})
	return r
}

// startReading has kgo read a partition from a position on. If the position has a leader epoch, kgo checks for truncation before it
// reads, and again whenever the leader changes.
func (rd *Reader) startReading(at TopicPartition, from ledger.Position) {
	offset := kgo.NewOffset().At(from.Offset)
	if from.LeaderEpoch >= 0 {
		offset = offset.WithEpoch(from.LeaderEpoch)
	}
	rd.cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{at.Topic: {at.Number: offset}})
}

// Drop ends a reading. [Reader.Out] may still bring parts of it.
func (rd *Reader) Drop(ctx context.Context, r *Reading) {
	rd.do(ctx, func() {
		if rd.readings[r.at()] == r {
			rd.remove(r.at())
		}
	})
}

// remove ends the reading of a partition, if there is one.
func (rd *Reader) remove(at TopicPartition) {
	if rd.readings[at] == nil {
		return
	}
	delete(rd.readings, at)
	rd.stopReading(at)
}

// stopReading has kgo stop reading a partition, and drop what it has buffered of it.
func (rd *Reader) stopReading(at TopicPartition) {
	rd.cl.RemoveConsumePartitions(map[string][]int32{at.Topic: {at.Number}})
}

// runCall runs what do has sent.
func (rd *Reader) runCall(fn func()) {
	rd.waiting.Add(-1)
	fn()
}

// Run polls until ctx is done.
func (rd *Reader) Run(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := rd.poll(ctx)
		for _, u := range rd.units(ctx, fetches) {
			if !rd.handOver(ctx, u) {
				return
			}
		}
		if fetches.NumRecords() == 0 && fetches.Err() != nil && !isDone(fetches.Err()) {
			rd.pauseClient(ctx)
		}
	}
}

// isDone reports whether an error only says that the poll's context ended.
func isDone(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// pauseClient waits a moment after a poll that brought nothing but errors, which may return at once each time. It runs calls
// meanwhile.
func (rd *Reader) pauseClient(ctx context.Context) {
	timer := time.NewTimer(200 * time.Millisecond)
	defer timer.Stop()
	for {
		select {
		case fn := <-rd.calls:
			rd.runCall(fn)
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// handOver sends a unit, and runs calls until somebody receives it: the receiver may be waiting for such a call. It returns false
// once ctx is done.
func (rd *Reader) handOver(ctx context.Context, u Unit) bool {
	for {
		select {
		case rd.out <- u:
			return true
		case fn := <-rd.calls:
			rd.runCall(fn)
		case <-ctx.Done():
			return false
		}
	}
}

// poll runs the calls that wait, and then returns the next records. It returns nothing if it was woken for a call, or ctx is done.
func (rd *Reader) poll(ctx context.Context) kgo.Fetches {
	pctx, cancel := rd.untilRetry(ctx)
	defer cancel()
	rd.wake.Store(&cancel)
	for rd.waiting.Load() > 0 || len(rd.readings) == 0 {
		select {
		case fn := <-rd.calls:
			rd.runCall(fn)
		case <-ctx.Done():
			return nil
		}
	}
	if pctx.Err() != nil {
		return nil // woken for a call that has run by now
	}
	return rd.cl.PollRecords(pctx, rd.records)
}

// untilRetry reads on in partitions whose pause after an error is over. It returns a context for the next poll, which ends when the
// next such pause does.
func (rd *Reader) untilRetry(ctx context.Context) (context.Context, context.CancelFunc) {
	var first time.Time // when the first of the other pauses ends
	for _, reading := range rd.readings {
		if reading.retryAt.IsZero() {
			continue
		}
		if !time.Now().Before(reading.retryAt) {
			reading.retryAt = time.Time{}
			rd.startReading(reading.at(), reading.next)
		} else if first.IsZero() || reading.retryAt.Before(first) {
			first = reading.retryAt
		}
	}
	if first.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, first)
}

// pauseAfterError stops reading a partition for a while, longer after each failure, and returns the part that says why.
func (rd *Reader) pauseAfterError(reading *Reading, err error) Part {
	rd.stopReading(reading.at())
	reading.retryAt = time.Now().Add(min(200*time.Millisecond<<min(reading.failures, 5), 5*time.Second))
	reading.failures++
	return Part{Of: reading, From: reading.next.Offset, Err: record.Lacks(rd.cl, "Read", "topic "+reading.at().Topic, err)}
}

// units cuts a poll into units, of which each is for one batch of the stream: each partition's records in order. A record that is larger
// than such a batch is a unit alone. A partition that failed has a part that says why, and pauses.
func (rd *Reader) units(ctx context.Context, fetches kgo.Fetches) []Unit {
	c := unitCutter{reader: rd, counts: counting{ask: rd.count}}
	fetches.EachPartition(func(tp kgo.FetchTopicPartition) {
		reading := rd.readings[TopicPartition{tp.Topic, tp.Partition}]
		if reading == nil { // an error about the client, or a partition that was dropped
			if tp.Err != nil && !isDone(tp.Err) {
				rd.onError(tp.Err)
			}
			return
		}
		if !reading.retryAt.IsZero() { // failed earlier in this poll: these records are read again
			return
		}
		if err := logMoved(fetches, tp.Topic, tp.Partition); err != nil {
			c.Parts = append(c.Parts, rd.pauseAfterError(reading, err)) // the records of this poll are not used: they may be from after a truncation
			return
		}
		if tp.LogStartOffset > reading.next.Offset { // after kgo has looked up a partition, it may go on at the log's start: records were deleted unread
			c.Parts = append(c.Parts, rd.pauseAfterError(reading, kerr.OffsetOutOfRange))
			return
		}
		c.part = nil // the next record begins one
		for _, r := range tp.Records {
			if err := c.record(ctx, reading, r, tp.HighWatermark); err != nil {
				c.Parts = append(c.Parts, rd.pauseAfterError(reading, err))
				return
			}
		}
		e, large := errors.AsType[*kgo.ErrDecompressTooLarge](tp.Err)
		switch {
		case large && e.NextOffset > reading.next.Offset: // one row for the batch, and on behind it
			next := ledger.Position{Offset: e.NextOffset, LeaderEpoch: e.Epoch}
			rec := rd.tooLargeRecord(ctx, reading, e) // its offset is reading.next, which advance moves
			c.advance(reading, next, tp.HighWatermark, 0)
			c.add(rec, nil)
			rd.skipTo(reading, next)
		case tp.Err != nil: // a broken batch; the records before it are good
			c.Parts = append(c.Parts, rd.pauseAfterError(reading, tp.Err))
		}
	})
	if len(c.Parts) > 0 {
		c.units = append(c.units, c.Unit)
	}
	return c.units
}

// unitCutter is the state of cutting one poll into units.
type unitCutter struct {
	reader *Reader
	counts counting
	units  []Unit // complete ones
	Unit          // the current one
	part   *Part  // the current partition's part in the current unit; nil: none yet
}

// record adds one record of a partition to the current unit, and moves the partition's position past it. end is the log's end. An error
// of counting.check is returned. Then nothing is added, and the partition must be read again from this record.
func (c *unitCutter) record(ctx context.Context, reading *Reading, r *kgo.Record, end int64) error {
	if r.Offset < reading.next.Offset {
		return nil
	}
	size, next := weight(r), ledger.Position{Offset: r.Offset + 1, LeaderEpoch: r.LeaderEpoch}
	if r.Attrs.IsControl() {
		c.advance(reading, next, end, size)
		return nil
	}
	rec, event := decode(r, c.reader.wants, bounds{partitions: reading.partitions, maxBytes: c.reader.maxRecord})
	if rec.Broken == gate.ReasonMisplaced { // a record also seems to be in the wrong partition if our number of partitions is out of date
		if err := c.counts.check(ctx, reading); err != nil {
			return err
		}
	}
	c.advance(reading, next, end, size)
	c.add(rec, event)
	c.Bytes += size // of the unit, which advance may have begun
	c.part.Bytes += size
	return nil
}

// advance moves a partition's position to next, in the current unit or, if one more record of size bytes does not fit there, in a new one.
func (c *unitCutter) advance(reading *Reading, next ledger.Position, end int64, size int) {
	if c.Records >= c.reader.records || (c.Records > 0 && c.Bytes+size > c.reader.bytes) {
		c.units, c.Unit, c.part = append(c.units, c.Unit), Unit{}, nil
	}
	if c.part == nil {
		c.Parts = append(c.Parts, Part{Of: reading, From: reading.next.Offset})
		c.part = &c.Parts[len(c.Parts)-1]
	}
	reading.next, reading.failures = next, 0
	c.part.End, c.part.Next = max(end, next.Offset), next
}

// add appends a record to the current partition's part. Its bytes are not counted.
func (c *unitCutter) add(rec ledger.Record, event *schemas.Event) {
	c.part.Records, c.part.Events = append(c.part.Records, rec), append(c.part.Events, event)
	c.Records++
}

// skipTo has kgo read on behind a batch that is too large, at which it has stopped.
func (rd *Reader) skipTo(reading *Reading, next ledger.Position) {
	rd.stopReading(reading.at())
	rd.startReading(reading.at(), next)
}

// batchTimeout bounds the read of a compressed batch. The reader runs no calls meanwhile.
const batchTimeout = 2 * time.Second

// tooLargeRecord returns what the ledger stores of a batch that decompresses to more than is read: one row for all of its records, at
// the first one's offset, with the compressed batch if it can be read and is not too large.
func (rd *Reader) tooLargeRecord(ctx context.Context, reading *Reading, e *kgo.ErrDecompressTooLarge) ledger.Record {
	from := max(e.Offset, reading.next.Offset)
	rec := ledger.Record{Record: gate.Record{Offset: from, Broken: gate.ReasonTooLarge}, LeaderEpoch: e.Epoch}
	rec.Error = fmt.Sprintf("the batch of offsets %d to %d decompresses to more than the %d bytes that are read, or to more records than are; all of it is in the log for as long as the topic keeps it",
		from, e.NextOffset-1, rd.maxRecord)
	if rd.chunks == nil {
		return rec
	}
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	raw, err := rd.chunks.batch(ctx, reading.Partition, from)
	if err == nil && len(raw) <= keptBatch {
		rec.Packed = func() []byte { return raw }
		rec.Error += "; kept here is the batch as it stands there, compressed"
	}
	return rec
}

// keptBatch is the largest compressed batch that is kept, in bytes.
const keptBatch = 1 << 20

// logMoved returns the error in a poll that says that a partition's log may have changed: a broker's, or kgo's about lost data, which
// comes as a fetch of its own, after those with records. nil if there is none. kgo's errors about a batch that it could not decode do
// not count: the records before that batch are good.
func logMoved(fetches kgo.Fetches, topic string, number int32) (found error) {
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

// weight returns the bytes of a record's key, value and headers.
func weight(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
